package tui

import "dev.gpustall/tui/canvas"

// View returns the frame. It is drawn again only when something changed:
// bubbletea asks after every message.
func (m *Model) View() string {
	if m.dirty || m.cached == "" {
		m.render()
		m.cached = m.c.Frame()
		m.dirty = false
	}
	return m.cached
}

// render draws everything into the canvas.
func (m *Model) render() {
	if m.w <= 0 || m.h <= 0 {
		m.c.Resize(0, 0)
		return
	}
	m.c.Resize(m.w, m.h)
	m.c.Clear()
	if m.live == nil {
		m.c.Text(1, 0, m.w-2, canvas.Dim, "gpustall: waiting for the session")
		return
	}
	l := m.layout()
	if l.class == sizeLine {
		m.drawOneLine()
		return
	}
	m.drawHeader(l.header)
	if !l.brief.Empty() {
		m.drawBrief(l.brief)
	}
	for i, r := range l.panels {
		if !r.Empty() {
			m.drawPanel(&m.panels[i], r)
		}
	}
	m.drawFooter(l.footer)
	if m.overlay != overlayNone {
		m.drawOverlay(canvas.Rect(0, 1, m.w, m.h-2))
	}
}

// drawBrief is the screen below 80x24: the verdict, gauges, the lanes that matter and
// the selected knob, as many lines as there are.
func (m *Model) drawBrief(r canvas.Rectangle) {
	v := m.see(m.panel("knobs"))
	y, end := r.Y, r.Y+r.H
	line := func() canvas.Pen {
		p := m.c.Pen(r.X+1, y, r.W-2)
		y++
		return p
	}
	const most = 3 // what is left to a gauge, STALL and the knob
	m.verdict.wrap(&m.analysis.told, r.W-2)
	if n := len(m.verdict.lines); n > 0 && m.analysis.told.Verdict.Class != "" && n <= r.H-most {
		y += m.verdict.drawLines(v, canvas.Rect(r.X+1, y, r.W-2, n))
	} else { // in short
		p := line()
		verdictLine(&m.analysis.told, &p)
	}
	knobs := 1
	if end-y >= 10 {
		knobs = 2
	}
	stop := end - knobs
	for i, f := range [...]func(*view, *canvas.Pen){utilLine, rateLine, stepLine, queueLine} {
		if stop-y <= 2 && i > 0 {
			break
		}
		p := line()
		f(v, &p)
	}
	if stop-y >= 8 {
		p := line()
		nvmlLine(v, &p)
	}
	if stop-y >= 7 {
		m.c.Rule(r, y)
		y++
	}
	// The lanes: the timeline's own rows, which keep STALL longest.
	if h := stop - y; h > 0 {
		m.timeline.draw(v, canvas.Rect(r.X, y, r.W, h))
	}
	y = stop
	if knobs > 1 {
		m.c.Rule(r, y)
		y++
	}
	if m.knobs.selected() != nil {
		m.knobs.drawSelected(v, canvas.Rect(r.X+1, y, r.W-1, 1))
	}
}
