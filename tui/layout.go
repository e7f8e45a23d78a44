package tui

// size classes of the screen. It never refuses to run.
type sizeClass uint8

const (
	sizeLine    sizeClass = iota // below 40x8: one line
	sizeSmall                    // below 80x24: gauges, the STALL lane, the selected knob
	sizeCompact                  // below 120x30: gauges in one box, one panel beside the knobs
	sizeFull
	sizeLarge // from 160x42: taller gauges, notes beside the experiments
)

func classOf(w, h int) sizeClass {
	switch {
	case w < 40 || h < 8:
		return sizeLine
	case w < 80 || h < 24:
		return sizeSmall
	case w < 120 || h < 30:
		return sizeCompact
	case w < 160 || h < 42:
		return sizeFull
	}
	return sizeLarge
}

// layout is where everything goes. Empty rectangles are not drawn.
type layout struct {
	class                                         sizeClass
	header, gauges, footer                        rect
	timeline, knobs, verdict, stalls, experiments rect
	ops, notes                                    rect
}

// arrange lays the screen out. side is the panel that shares the lower right of
// the compact layout; the device ops have the lower part of larger ones; expanded
// gives the focused panel the whole body.
func arrange(w, h int, focus, side panel, expanded bool) (l layout) {
	l.class = classOf(w, h)
	l.header = rect{0, 0, w, 1}
	l.footer = rect{0, h - 1, w, 1}
	body := rect{0, 1, w, h - 2}
	switch l.class {
	case sizeLine:
		l.header, l.footer = rect{0, 0, w, 1}, rect{}
		return l
	case sizeSmall:
		if expanded || focus >= paneStalls { // of these the small screen shows nothing
			*l.panel(focus) = body
		} else {
			l.gauges = body
		}
		return l
	}
	if expanded {
		*l.panel(focus) = body
		return l
	}
	switch l.class {
	case sizeCompact:
		l.compact(body, side)
	case sizeFull:
		l.full(body, 5, 7, experimentRows(body.h, 7))
	case sizeLarge:
		l.full(body, 7, 8, experimentRows(body.h, 10))
		nw := min(60, w/3)
		l.experiments.w -= nw
		l.notes = rect{l.experiments.w, l.experiments.y, nw, l.experiments.h}
	}
	if side == paneOps && l.class >= sizeFull { // the lower part is theirs, while they are looked at
		h := body.y + body.h - l.verdict.y
		l.ops = rect{body.x, l.verdict.y, body.w, h}
		l.verdict, l.stalls, l.experiments, l.notes = rect{}, rect{}, rect{}, rect{}
	}
	return l
}

// experimentRows gives the table a little more on tall screens.
func experimentRows(h, base int) int { return base + max(0, h-34)/8 }

// full is the layout of a large terminal.
func (l *layout) full(b rect, gauges, verdict, experiments int) {
	main := b.h - gauges - verdict - experiments
	kw := max(50, b.w*2/5)
	if b.w >= 160 {
		kw = max(56, b.w/3)
	}
	y := b.y
	l.gauges = rect{b.x, y, b.w, gauges}
	y += gauges
	l.timeline = rect{b.x, y, b.w - kw, main}
	l.knobs = rect{b.w - kw, y, kw, main}
	y += main
	vw := b.w / 2
	l.verdict = rect{b.x, y, vw, verdict}
	l.stalls = rect{vw, y, b.w - vw, verdict}
	y += verdict
	l.experiments = rect{b.x, y, b.w, experiments}
}

// compact keeps gauges, timeline and knobs, and one of the other panels.
func (l *layout) compact(b rect, side panel) {
	const gauges = 5
	lower := max(8, (b.h-gauges)*2/5)
	main := b.h - gauges - lower
	y := b.y
	l.gauges = rect{b.x, y, b.w, gauges}
	y += gauges
	l.timeline = rect{b.x, y, b.w, main}
	y += main
	kw := max(36, b.w*9/20)
	l.knobs = rect{b.x, y, kw, lower}
	*l.panel(side) = rect{kw, y, b.w - kw, lower}
}

func (l *layout) panel(p panel) *rect {
	switch p {
	case paneTimeline:
		return &l.timeline
	case paneKnobs:
		return &l.knobs
	case paneStalls:
		return &l.stalls
	case paneExperiments:
		return &l.experiments
	case paneOps:
		return &l.ops
	}
	return &l.verdict
}

// box draws a border with a title; pane is the panel it belongs to, 0 for none.
func (m *Model) box(r rect, title string, pane panel) pen {
	if r.w < 2 || r.h < 2 {
		return m.c.pen(r.x, r.y, 0)
	}
	bst, tst := stBorder, stTitle
	if pane != 0 && pane == m.focus {
		bst, tst = stBorderFocus, stTitleFocus
	}
	x1, y1 := r.x+r.w-1, r.y+r.h-1
	for x := r.x + 1; x < x1; x++ {
		m.c.set(x, r.y, m.cs.hor, bst)
		m.c.set(x, y1, m.cs.hor, bst)
	}
	for y := r.y + 1; y < y1; y++ {
		m.c.set(r.x, y, m.cs.vr, bst)
		m.c.set(x1, y, m.cs.vr, bst)
	}
	m.c.set(r.x, r.y, m.cs.tl, bst)
	m.c.set(x1, r.y, m.cs.tr, bst)
	m.c.set(r.x, y1, m.cs.bl, bst)
	m.c.set(x1, y1, m.cs.br, bst)
	p := m.c.pen(r.x+2, r.y, r.w-4)
	p.text(tst, " ")
	if pane != 0 {
		p.plain(stKey, int64(pane)).text(tst, " ")
	}
	p.text(tst, title).text(tst, " ")
	return p
}
