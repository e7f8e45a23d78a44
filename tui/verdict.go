package tui

import (
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/advice"
	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// classStyle is the colour of a verdict's class.
func classStyle(v *advice.Verdict) canvas.Style {
	switch {
	case v.Moderate || v.Group == trace.GroupUnknown:
		return canvas.WarnBold
	case v.Class == advice.DeviceBound:
		return canvas.GoodBold
	case v.Class == advice.NotEnoughSteps, v.Class == "":
		return canvas.Dim
	}
	return canvas.BadBold
}

// verdictPanel says what the device waits for and what to try.
func verdictPanel() panel {
	return panel{
		key: "3", name: "verdict", title: "Verdict", side: true, small: true,
		place: func(s space) place {
			if s.class == sizeCompact {
				return place{band: lowerBand}
			}
			return place{band: verdictBand, rows: verdictRows(s), cols: s.w / 2}
		},
		draw: drawVerdict,
		keys: []binding{
			{keys: "enter", hint: "stage the advice", help: "stage what it advises",
				when: func(m *Model) bool { return m.analysis.told.First().Value != "" },
				do:   func(m *Model, _ string) tea.Cmd { m.stageAdvice(); return nil }},
		},
	}
}

// verdictRows is the height of its band.
func verdictRows(s space) int { return pick(s.class == sizeLarge, 8, 7) }

// verdictLine is the verdict in one line.
func verdictLine(a *advice.Advice, p *canvas.Pen) {
	v, f := &a.Verdict, a.First()
	if v.Class == "" {
		p.Text(canvas.Dim, "no verdict yet")
		return
	}
	p.Text(classStyle(v), strings.ToUpper(v.Class))
	if v.Share > 0 && v.Class != advice.NotEnoughSteps && v.Class != advice.DeviceBound {
		p.Space(1).Bytes(stallStyle(v.Share), figures.Narrow.AppendPercent(p.Buf(), v.Share)).Text(canvas.Dim, " chiefly ").Text(canvas.Normal, v.Dominant.String())
	}
	if f.Knob != "" {
		p.Text(canvas.Dim, ": try ").Text(canvas.Bold, f.Knob).Space(1).Text(canvas.Bold, f.Value)
	}
}

func drawVerdict(v *view, r canvas.Rectangle) {
	in := r.Indent()
	if in.Empty() {
		return
	}
	an := v.analysis
	if an.told.Verdict.Class == "" {
		v.c.Text(in.X, in.Y, in.W, canvas.Dim, "no verdict yet: it needs some steps")
		return
	}
	an.wrapVerdict(in.W)
	y, bottom := in.Y, in.Y+in.H-1
	for i, line := range an.lines {
		if y > bottom {
			break
		}
		st := canvas.Normal
		if i >= an.advice {
			st = canvas.Bold
		}
		p := v.c.Pen(in.X, y, in.W)
		if i == 0 {
			p.Text(classStyle(&an.told.Verdict), an.class)
			line = line[len(an.class):]
		}
		p.Text(st, line)
		if y == bottom && i < len(an.lines)-1 {
			p.Text(st, " ~") // there is more: f expands
		}
		y++
	}
	if y <= bottom { // the two numbers that people mix up, when there is room
		p := v.c.Pen(in.X, bottom, in.W)
		v.pic.dataLine(&p)
	}
	if v.expanded && in.H > 12 {
		v.c.Rule(in, y+1)
		drawNotes(v.c, canvas.Rect(in.X-1, y+2, in.W, bottom-y-3), v.pic.snap.Notes, 0)
	}
}

// stageAdvice stages what the verdict suggests.
func (m *Model) stageAdvice() {
	v := m.analysis.told.First()
	if v.Value == "" || m.o.Control == nil {
		return
	}
	for i := range m.knobs.specs {
		if m.knobs.specs[i].Name == v.Knob {
			m.knobs.sel = i
			m.knobs.stage(v.Knob, v.Value, m.inForce(v.Knob))
			m.setFocus(m.panel("knobs"))
			m.say("info", v.Knob+" "+v.Value+" is staged: enter applies it")
			return
		}
	}
}

// nbsp is a space at which no line breaks: within a class, before a percent sign.
const nbsp = "\ue000"

// wrapWords breaks s into lines and leaves numbers with their percent signs.
func wrapWords(s string, w int) []string {
	lines := canvas.Wrap(strings.ReplaceAll(s, " %", nbsp+"%"), w)
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], nbsp, " ")
	}
	return lines
}

// wrapVerdict breaks the verdict's text once per text and width.
func (a *analysis) wrapVerdict(w int) {
	v, advice := &a.told.Verdict, a.told.Text()
	if a.wrapped == w && a.text == v.Text && a.adviceText == advice {
		return
	}
	a.wrapped, a.text, a.adviceText = w, v.Text, advice
	// The class leads, in capitals; the text that follows need not repeat it.
	a.class, _ = canvas.Cut(strings.ToUpper(v.Class), w)
	rest := strings.TrimLeft(strings.TrimPrefix(v.Text, v.Class), ":; ")
	a.lines = wrapWords(strings.ReplaceAll(a.class, " ", nbsp)+" "+rest, w)
	a.advice = len(a.lines)
	a.lines = append(a.lines, wrapWords(advice, w)...)
}
