package tui

import (
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// classStyle is the colour of a verdict's class.
func classStyle(v *advice.Verdict) canvas.Style {
	switch {
	case v.Moderate || v.Group == trace.GroupUnknown:
		return canvas.WarnBold
	case v.Class == advice.NotEnoughSteps, v.Class == "":
		return canvas.Dim
	case v.Group == trace.GroupNone:
		return canvas.GoodBold
	}
	return canvas.BadBold
}

// verdict is the panel that says first, and in full, what the device waits for, how
// that is known and what to try.
type verdict struct {
	width   int // the text is broken into lines of this width
	text    string
	finding advice.Finding
	asked   string // of the run, and what it answered
	class   string // which leads the first line, in capitals
	lines   []verdictRow
	answers int // how many of them, the last ones, are of asked

	besideWidth int // as width, and text, of ...
	besideText  []string
	beside      [][]string // what is said beside it, each in its lines

	tall lines // the band's
}

// verdictRow is a line of the verdict.
type verdictRow struct {
	text  string
	style canvas.Style
	aside string // after it, dim
}

// roomyVerdict is the width from which what is not known has a line of its own.
const roomyVerdict = 100

// gainUnknown stands where what the advice is expected to gain cannot be predicted.
const gainUnknown = "expected gain: not known"

func (vd *verdict) panel(an *analysis) panel {
	return panel{
		key: "3", name: "verdict", title: "Verdict", small: true,
		place: func(s space) place { return place{band: verdictBand, rows: s.verdict} },
		about: func(v *view, p *canvas.Pen) {
			if v.analysis.held != "" {
				p.Text(canvas.Dim, v.analysis.held)
			} else {
				v.win.write(p)
			}
		},
		draw: vd.draw,
		keys: []binding{
			{keys: "enter", hint: "stage the advice", help: "stage what it advises", live: true,
				when: func(m *Model) bool { return an.told.First().Value != "" },
				do:   func(m *Model, _ string) tea.Cmd { m.stageAdvice(); return nil }},
		},
	}
}

// rows is the height of the band: what the text needs, as long as the panels below
// it can show something.
func (vd *verdict) rows(an *analysis, s space) int {
	vd.wrap(&an.told, s.w-4)
	below := 11
	switch {
	case s.guide > 0: // it stands between, and tells of the STALL lane: gauges, that lane, the knobs
		below = max(below, s.guide+gaugeRows(s)+2*leastRows)
	case s.class == sizeCompact: // gauges, compute and STALL, some knobs
		below = gaugeRows(s) + 4 + compactKnobs
	}
	return min(vd.tall.n+2, max(leastRows, s.h-below))
}

// verdictLine is the verdict in one line.
func verdictLine(a *advice.Advice, p *canvas.Pen) {
	v, f := &a.Verdict, a.First()
	if v.Class == "" {
		p.Text(canvas.Dim, "no verdict yet")
		return
	}
	p.Text(classStyle(v), strings.ToUpper(v.Class))
	if v.Share > 0 && v.Group != trace.GroupNone {
		p.Space(1).Bytes(stallStyle(v.Share), units.Narrow.AppendPercent(p.Buf(), v.Share)).Text(canvas.Dim, " chiefly ").Text(canvas.Normal, v.Dominant.String())
	}
	if f.Knob != "" {
		p.Text(canvas.Dim, ": try ").Text(canvas.Bold, f.Knob).Space(1).Text(canvas.Bold, f.Value)
	}
}

func (vd *verdict) draw(v *view, r canvas.Rectangle) {
	in := r.Indent()
	if in.Empty() {
		return
	}
	if v.analysis.told.Verdict.Class == "" {
		v.c.Text(in.X, in.Y, in.W, canvas.Dim, "no verdict yet: it needs some steps")
		return
	}
	vd.wrap(&v.analysis.told, in.W)
	y := in.Y + vd.drawLines(v, in)
	if v.expanded && in.H > 12 {
		y = vd.drawBeside(v, in, y)
		v.c.Rule(in, y+1)
		drawNotes(v.c, canvas.Rect(in.X-1, y+2, in.W, in.Y+in.H-y-2), &v.pic.snap, 0)
	}
}

// drawBeside draws what is said beside the verdict below y, and returns where it ends.
func (vd *verdict) drawBeside(v *view, in canvas.Rectangle, y int) int {
	if texts := v.analysis.beside; vd.besideWidth != in.W || !slices.Equal(vd.besideText, texts) {
		vd.besideWidth, vd.besideText, vd.beside = in.W, texts, nil
		for _, text := range texts {
			vd.beside = append(vd.beside, wrapWords(text, in.W))
		}
	}
	for _, lines := range vd.beside {
		if y+1+len(lines) > in.Y+in.H-6 { // the notes below have some room too
			continue
		}
		for _, line := range lines {
			v.c.Text(in.X, y+1, in.W, canvas.Normal, line)
			y++
		}
	}
	return y
}

// verdictRest ends a verdict that is cut, and names the keys that show the rest.
const verdictRest = " ~ 3 f shows all"

// drawLines draws the text and returns how many lines it has. Where it has to be cut, what
// was asked keeps its lines: that is what somebody waits for.
func (vd *verdict) drawLines(v *view, r canvas.Rectangle) int {
	n := min(len(vd.lines), r.H)
	cut := n // the line before which some are missing
	if n < len(vd.lines) {
		cut = max(min(n, 2), n-vd.answers)
	}
	for i := range n {
		line := &vd.lines[i]
		if i >= cut {
			line = &vd.lines[len(vd.lines)-vd.answers+i-cut]
		}
		text := line.text
		p := v.c.Pen(r.X, r.Y+i, r.W)
		if i == 0 {
			p.Text(classStyle(&v.analysis.told.Verdict), vd.class)
			text = text[len(vd.class):]
		}
		if i != cut-1 || n == len(vd.lines) {
			p.Text(line.style, text).Text(canvas.Dim, line.aside)
			continue
		}
		rest := pick(v.expanded, " ~", verdictRest)
		for canvas.Width(text)+len(rest) > p.Left() && strings.Contains(text, " ") { // there is more
			text = text[:strings.LastIndex(text, " ")]
		}
		p.Text(line.style, text).Text(canvas.Key, rest)
	}
	return n
}

// stageAdvice stages what the verdict suggests.
func (m *Model) stageAdvice() {
	if !m.settable() {
		return
	}
	v := m.analysis.told.First()
	if v.Value == "" {
		m.say("info", "nothing is advised now that a knob could do")
		return
	}
	if i := m.knobs.find(v.Knob); i >= 0 {
		m.knobs.sel = i
		m.knobs.stage(v.Knob, v.Value, m.inForce(v.Knob))
		m.setFocus(m.panel("knobs"))
		m.say("info", v.Knob+" "+v.Value+" is staged: enter applies it")
	}
}

// wrapWords breaks s into lines and leaves numbers with their units.
func wrapWords(s string, w int) []string {
	lines := canvas.Wrap(units.Bind(s), w)
	for i := range lines {
		lines[i] = units.Unbind(lines[i])
	}
	return lines
}

// wrap breaks the verdict's text into lines, once per text and width.
func (vd *verdict) wrap(a *advice.Advice, w int) {
	v, f := &a.Verdict, a.First()
	if vd.width == w && vd.text == v.Text && vd.finding == f && vd.asked == a.Asked {
		return
	}
	if vd.width != w {
		vd.tall.loosen()
	}
	vd.width, vd.text, vd.finding, vd.asked = w, v.Text, f, a.Asked
	// The class leads, in capitals; the text that follows need not repeat it.
	vd.class, _ = canvas.Cut(strings.ToUpper(v.Class), w)
	rest := strings.TrimLeft(strings.TrimPrefix(v.Text, v.Class), ":; ")
	rest = strings.TrimSuffix(rest, v.Basis) // the panel's title and the header have it
	vd.lines = vd.lines[:0]
	for _, line := range wrapWords(strings.ReplaceAll(vd.class, " ", units.NoBreak)+" "+rest, w) {
		vd.lines = append(vd.lines, verdictRow{text: line})
	}
	for _, line := range wrapWords(a.Text(), w) {
		vd.lines = append(vd.lines, verdictRow{text: line, style: canvas.Bold})
	}
	if f.Value != "" && !f.Predicted.Made() {
		last := &vd.lines[len(vd.lines)-1]
		if canvas.Width(last.text)+2+len(gainUnknown) <= w {
			last.aside = "  " + gainUnknown
		} else if w >= roomyVerdict {
			vd.lines = append(vd.lines, verdictRow{aside: gainUnknown})
		}
	}
	vd.answers = 0
	if a.Asked != "" {
		for _, line := range wrapWords(a.Asked, w) {
			vd.lines = append(vd.lines, verdictRow{text: line})
			vd.answers++
		}
	}
	vd.tall.need(max(1, len(vd.lines)))
}
