package tui

import (
	"dev.gpustall/tui/canvas"
	"dev.gpustall/tui/panel"
)

// View returns the frame.
func (m *Model) View() string {
	if m.frame.dirty || m.frame.cached == "" {
		m.render()
		m.frame.cached = m.frame.c.Frame()
		m.frame.dirty = false
	}
	return m.frame.cached
}

// render draws everything into the canvas.
func (m *Model) render() {
	c, w, h := &m.frame.c, m.layout.w, m.layout.h
	if w <= 0 || h <= 0 {
		c.Resize(0, 0)
		return
	}
	c.Resize(w, h)
	c.Clear()
	if m.session.live == nil {
		c.Text(1, 0, w-2, canvas.Dim, "gpustall: waiting for the session")
		return
	}
	l := m.arrange()
	top := header{m.See(nil), m.pace.fps, m.session.underWay()}
	if l.class == panel.SizeLine {
		top.drawLine(m.exit.asking, &m.msg)
		if h > 1 && !m.exit.asking && m.msg.text == "" {
			if used := 1 + m.panels.verdict.DrawShort(top.v, canvas.Rect(0, 1, w, h-1)); used < h {
				m.drawFooter(canvas.Rect(-1, h-1, w+1, 1))
			}
			m.drawOverlay(canvas.Rect(0, 1, w, h-1))
		}
		return
	}
	top.draw(l.header)
	if !l.brief.Empty() {
		m.panels.brief.Draw(m.See(m.panels.knobs), l.brief)
	}
	for i, r := range l.panels {
		if !r.Empty() {
			m.drawPanel(m.focus.panels[i], r)
		}
	}
	m.drawFooter(l.footer)
	m.drawOverlay(canvas.Rect(0, 1, w, h-2))
}

func (m *Model) drawFooter(r canvas.Rectangle) {
	bottom := footer{c: &m.frame.c, asking: m.exit.asking, prompt: m.prompt, msg: &m.msg, own: m.focus.keys(), globals: m.globals, replay: m.o.Replay}
	if m.layout.class == panel.SizeLine {
		bottom.own, bottom.globals = nil, m.few
	}
	bottom.draw(r)
}

// drawOverlay draws the help or the log over r, where one is open and r has room for a line of it.
func (m *Model) drawOverlay(r canvas.Rectangle) {
	if m.overlay.kind != overlayNone && r.H >= 3 {
		m.overlay.draw(&m.frame.c, m.help(), &m.session.pic, r)
	}
}

// drawPanel draws a panel into r, in a box if it has a title.
func (m *Model) drawPanel(p panel.Panel, r canvas.Rectangle) {
	v, card := m.See(p), p.Describe()
	if card.Title != "" {
		v.Head = v.C.Box(r, card.Key, card.Title, v.Focused)
		r = r.Inner()
	}
	p.Draw(v, r)
}

// arrange lays the screen out for its size and focus.
func (m *Model) arrange() *layout {
	l := &m.layout
	story := m.panels.story.Rows(l.w)
	s := panel.Space{Class: panel.ClassOf(l.w, l.h), W: l.w, H: l.h - 2}
	if s.Class >= panel.SizeCompact {
		s.Story = story
		s.Verdict = m.panels.verdict.Rows(&m.session.analysis.Analysis, s)
	}
	l.arrange(&m.focus, s, story)
	return l
}

// help returns the text of the help.
func (m *Model) help() *help { return &help{m.focus.panels, m.globals, m.o.Replay} }
