package tui

import (
	"strings"

	"dev.gpustall/engine/stall"
)

// classStyle is the colour of a verdict's class.
func classStyle(class string) style {
	switch class {
	case stall.ModeratelyInputBound, stall.Unexplained:
		return stWarnBold
	case stall.DeviceBound:
		return stGoodBold
	case stall.NotEnoughSteps, "":
		return stDim
	}
	return stBadBold
}

// verdictLine is the verdict in one line.
func (m *Model) verdictLine(p *pen) {
	v := &m.an.verdict
	if v.Class == "" {
		p.text(stDim, "no verdict yet")
		return
	}
	p.text(classStyle(v.Class), strings.ToUpper(v.Class))
	if v.Share > 0 && v.Class != stall.NotEnoughSteps && v.Class != stall.DeviceBound {
		p.space(1).pct(stallStyle(v.Share), v.Share).text(stDim, " chiefly ").text(stNormal, v.Dominant.String())
	}
	if v.Knob != "" {
		p.text(stDim, ": try ").text(stBold, v.Knob).space(1).text(stBold, v.Value)
	}
}

func (m *Model) drawVerdict(r rect) {
	m.box(r, "Verdict", paneVerdict)
	in := r.inner()
	in.x++
	in.w -= 2
	if in.empty() {
		return
	}
	v := &m.an.verdict
	y := in.y
	p := m.c.pen(in.x, y, in.w)
	if v.Class == "" {
		p.text(stDim, "no verdict yet: it needs some steps")
		return
	}
	m.wrapVerdict(in.w)
	bottom := in.y + in.h - 1
	for i, line := range m.an.lines {
		if y > bottom {
			break
		}
		st := stNormal
		if i >= m.an.advice {
			st = stBold
		}
		p = m.c.pen(in.x, y, in.w)
		if i == 0 {
			p.text(classStyle(v.Class), m.an.class)
			line = line[len(m.an.class):]
		}
		p.text(st, line)
		if y == bottom && i < len(m.an.lines)-1 {
			p.text(st, " ~") // there is more: f expands
		}
		y++
	}
	if y <= bottom { // the two numbers that people mix up, when there is room
		p = m.c.pen(in.x, bottom, in.w)
		m.dataLine(&p)
	}
	if m.expanded && in.h > 12 {
		m.rule(rect{in.x, 0, in.w, 0}, y+1)
		m.drawNotes(rect{in.x - 1, y + 2, in.w, bottom - y - 3}, 0)
	}
}

// nbsp is a space at which no line breaks: within a class, before a percent sign.
const nbsp = "\ue000"

// wrapWords breaks s into lines and leaves numbers with their percent signs.
func wrapWords(s string, w int) []string {
	lines := wrap(strings.ReplaceAll(s, " %", nbsp+"%"), w)
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
	m.an.class, _ = cut(strings.ToUpper(v.Class), w)
	rest := strings.TrimLeft(strings.TrimPrefix(v.Text, v.Class), ":; ")
	m.an.lines = wrapWords(strings.ReplaceAll(m.an.class, " ", nbsp)+" "+rest, w)
	m.an.advice = len(m.an.lines)
	m.an.lines = append(m.an.lines, wrapWords(v.Advice, w)...)
}
