package tui

import (
	"strings"

	"dev.gpustall/engine/advice"
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

// verdictLine is the verdict in one line.
func (m *Model) verdictLine(p *canvas.Pen) {
	v := &m.an.verdict
	if v.Class == "" {
		p.Text(canvas.Dim, "no verdict yet")
		return
	}
	p.Text(classStyle(v), strings.ToUpper(v.Class))
	if v.Share > 0 && v.Class != advice.NotEnoughSteps && v.Class != advice.DeviceBound {
		p.Space(1).Bytes(stallStyle(v.Share), appendPct(p.Buf(), v.Share)).Text(canvas.Dim, " chiefly ").Text(canvas.Normal, v.Dominant.String())
	}
	if v.Knob != "" {
		p.Text(canvas.Dim, ": try ").Text(canvas.Bold, v.Knob).Space(1).Text(canvas.Bold, v.Value)
	}
}

func (m *Model) drawVerdict(r canvas.Rectangle) {
	m.box(r, "Verdict", paneVerdict)
	in := r.Inner()
	in.X++
	in.W -= 2
	if in.Empty() {
		return
	}
	v := &m.an.verdict
	y := in.Y
	p := m.c.Pen(in.X, y, in.W)
	if v.Class == "" {
		p.Text(canvas.Dim, "no verdict yet: it needs some steps")
		return
	}
	m.wrapVerdict(in.W)
	bottom := in.Y + in.H - 1
	for i, line := range m.an.lines {
		if y > bottom {
			break
		}
		st := canvas.Normal
		if i >= m.an.advice {
			st = canvas.Bold
		}
		p = m.c.Pen(in.X, y, in.W)
		if i == 0 {
			p.Text(classStyle(v), m.an.class)
			line = line[len(m.an.class):]
		}
		p.Text(st, line)
		if y == bottom && i < len(m.an.lines)-1 {
			p.Text(st, " ~") // there is more: f expands
		}
		y++
	}
	if y <= bottom { // the two numbers that people mix up, when there is room
		p = m.c.Pen(in.X, bottom, in.W)
		m.dataLine(&p)
	}
	if m.expanded && in.H > 12 {
		m.c.Rule(canvas.Rect(in.X, 0, in.W, 0), y+1)
		m.drawNotes(canvas.Rect(in.X-1, y+2, in.W, bottom-y-3), 0)
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
func (m *Model) wrapVerdict(w int) {
	v := &m.an.verdict
	if m.an.wrapped == w && m.an.text == v.Text && m.an.adviceText == v.Advice {
		return
	}
	m.an.wrapped, m.an.text, m.an.adviceText = w, v.Text, v.Advice
	// The class leads, in capitals; the text that follows need not repeat it.
	m.an.class, _ = canvas.Cut(strings.ToUpper(v.Class), w)
	rest := strings.TrimLeft(strings.TrimPrefix(v.Text, v.Class), ":; ")
	m.an.lines = wrapWords(strings.ReplaceAll(m.an.class, " ", nbsp)+" "+rest, w)
	m.an.advice = len(m.an.lines)
	m.an.lines = append(m.an.lines, wrapWords(v.Advice, w)...)
}
