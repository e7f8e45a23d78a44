package tui

import (
	"dev.gpustall/engine/figures"
	"dev.gpustall/tui/canvas"
)

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
	l := m.layout()
	if m.live == nil {
		m.c.Text(1, 0, m.w-2, canvas.Dim, "gpustall: waiting for the session")
		return
	}
	switch {
	case l.class == sizeLine:
		m.drawOneLine()
	case l.class == sizeSmall && !l.gauges.Empty():
		m.drawHeader(l.header)
		m.drawSmall(l.gauges)
		m.drawFooter(l.footer)
	default:
		m.drawHeader(l.header)
		m.drawPanels(&l)
		m.drawFooter(l.footer)
	}
	if m.overlay != overlayNone && l.class != sizeLine {
		m.drawOverlay(canvas.Rect(0, 1, m.w, m.h-2))
	}
}

func (m *Model) layout() layout { return arrange(m.w, m.h, m.focus, m.side, m.expanded) }

func (m *Model) drawPanels(l *layout) {
	if !l.gauges.Empty() {
		if l.class == sizeCompact {
			m.drawGaugesCompact(l.gauges)
		} else {
			m.drawGauges(l.gauges)
		}
	}
	if !l.timeline.Empty() {
		m.drawTimeline(l.timeline)
	}
	if !l.knobs.Empty() {
		title := "Knobs"
		if m.o.Control == nil {
			title = "Knobs (read-only)"
		}
		m.box(l.knobs, title, paneKnobs)
		m.kn.draw(m, l.knobs.Inner())
	}
	if !l.verdict.Empty() {
		m.drawVerdict(l.verdict)
	}
	if !l.stalls.Empty() {
		m.drawStalls(l.stalls)
	}
	if !l.ops.Empty() {
		m.op.draw(m, l.ops)
	}
	if !l.experiments.Empty() {
		m.ex.draw(m, l.experiments)
	}
	if !l.notes.Empty() {
		m.box(l.notes, "Notes", 0)
		m.drawNotes(l.notes.Inner(), 0)
	}
}

func (m *Model) drawTimeline(r canvas.Rectangle) {
	p := m.box(r, "Timeline", paneTimeline)
	in := r.Inner()
	p.Bytes(canvas.Normal, appendDur(p.Buf(), int64(m.tl.cols)*m.tl.bin())).Text(canvas.Dim, ", ").
		Text(canvas.Normal, zoomNames[m.tl.zoom]).Text(canvas.Dim, " a column ")
	switch {
	case m.tl.typing:
		p.Text(canvas.Key, " filter: /").Text(canvas.Bold, m.tl.filter).Text(canvas.Cursor, " ").Text(canvas.Dim, " enter ")
	case m.tl.filter != "":
		p.Text(canvas.Key, " /"+m.tl.filter).Text(canvas.Dim, " ")
	}
	m.drawMoment(r)
	m.tl.draw(m, in)
}

// drawMoment says at the right of the timeline's title which moment is shown.
func (m *Model) drawMoment(r canvas.Rectangle) {
	var b [48]byte
	t, st := b[:0], canvas.Paused
	switch {
	case m.o.Replay && m.play:
		t, st = append(t, " PLAYING "...), canvas.Running
	case m.o.Replay:
		t = append(t, " at "...)
	case m.frozen:
		t = append(t, " FROZEN "...)
	default:
		return
	}
	if m.o.Replay {
		t = figures.AppendClock(t, m.at)
		t = append(t, " of "...)
		t = figures.AppendClock(t, m.live.Now)
	} else if back := m.live.Now - m.at; back > 0 {
		t = appendDur(t, -back)
	}
	t = append(t, ' ')
	if r.W < len(t)+30 {
		return
	}
	m.c.Right(r.X, r.Y, r.W-2, st, t)
}
