package tui

// View returns the frame. It is drawn again only when something changed:
// bubbletea asks after every message.
func (m *Model) View() string {
	if m.dirty || m.cached == "" {
		m.render()
		m.cached = m.c.frame(&m.themes[m.theme].sgr)
		m.dirty = false
	}
	return m.cached
}

// render draws everything into the canvas.
func (m *Model) render() {
	if m.w <= 0 || m.h <= 0 {
		m.c.resize(0, 0)
		return
	}
	m.c.resize(m.w, m.h)
	m.c.clear()
	l := m.layout()
	if m.live == nil {
		m.c.pen(1, 0, m.w-2).hint(stDim, "gpustall: waiting for the session")
		return
	}
	switch {
	case l.class == sizeLine:
		m.drawOneLine()
	case l.class == sizeSmall && !l.gauges.empty():
		m.drawHeader(l.header)
		m.drawSmall(l.gauges)
		m.drawFooter(l.footer)
	default:
		m.drawHeader(l.header)
		m.drawPanels(&l)
		m.drawFooter(l.footer)
	}
	if m.overlay != overlayNone && l.class != sizeLine {
		m.drawOverlay(rect{0, 1, m.w, m.h - 2})
	}
}

func (m *Model) layout() layout { return arrange(m.w, m.h, m.focus, m.side, m.expanded) }

func (m *Model) drawPanels(l *layout) {
	if !l.gauges.empty() {
		if l.class == sizeCompact {
			m.drawGaugesCompact(l.gauges)
		} else {
			m.drawGauges(l.gauges)
		}
	}
	if !l.timeline.empty() {
		m.drawTimeline(l.timeline)
	}
	if !l.knobs.empty() {
		title := "Knobs"
		if m.o.Control == nil {
			title = "Knobs (read-only)"
		}
		m.box(l.knobs, title, paneKnobs)
		m.kn.draw(m, l.knobs.inner())
	}
	if !l.verdict.empty() {
		m.drawVerdict(l.verdict)
	}
	if !l.stalls.empty() {
		m.drawStalls(l.stalls)
	}
	if !l.ops.empty() {
		m.op.draw(m, l.ops)
	}
	if !l.experiments.empty() {
		m.ex.draw(m, l.experiments)
	}
	if !l.notes.empty() {
		m.box(l.notes, "Notes", 0)
		m.drawNotes(l.notes.inner(), 0)
	}
}

func (m *Model) drawTimeline(r rect) {
	p := m.box(r, "Timeline", paneTimeline)
	in := r.inner()
	p.dur(stNormal, int64(m.tl.cols)*m.tl.bin()).text(stDim, ", ").
		text(stNormal, zoomNames[m.tl.zoom]).text(stDim, " a column ")
	switch {
	case m.tl.typing:
		p.text(stKey, " filter: /").text(stBold, m.tl.filter).text(stCursor, " ").text(stDim, " enter ")
	case m.tl.filter != "":
		p.text(stKey, " /"+m.tl.filter).text(stDim, " ")
	}
	m.drawMoment(r)
	m.tl.draw(m, in)
}

// drawMoment says at the right of the timeline's title which moment is shown.
func (m *Model) drawMoment(r rect) {
	var b [48]byte
	t, st := b[:0], stPause
	switch {
	case m.o.Replay && m.play:
		t, st = append(t, " PLAYING "...), stRun
	case m.o.Replay:
		t = append(t, " at "...)
	case m.frozen:
		t = append(t, " FROZEN "...)
	default:
		return
	}
	if m.o.Replay {
		t = appendClock(t, m.at)
		t = append(t, " of "...)
		t = appendClock(t, m.live.Now)
	} else if back := m.live.Now - m.at; back > 0 {
		t = appendDur(t, -back)
	}
	t = append(t, ' ')
	if r.w < len(t)+30 {
		return
	}
	m.c.right(r.x, r.y, r.w-2, st, t)
}
