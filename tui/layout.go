package tui

import "dev.gpustall/tui/canvas"

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
	header, gauges, footer                        canvas.Rectangle
	timeline, knobs, verdict, stalls, experiments canvas.Rectangle
	ops, notes                                    canvas.Rectangle
}

// arrange lays the screen out. side is the panel that shares the lower right of
// the compact layout; the device ops have the lower part of larger ones; expanded
// gives the focused panel the whole body.
func arrange(w, h int, focus, side panel, expanded bool) (l layout) {
	l.class = classOf(w, h)
	l.header = canvas.Rect(0, 0, w, 1)
	l.footer = canvas.Rect(0, h-1, w, 1)
	body := canvas.Rect(0, 1, w, h-2)
	switch l.class {
	case sizeLine:
		l.header, l.footer = canvas.Rect(0, 0, w, 1), canvas.Rectangle{}
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
		l.full(body, 5, 7, experimentRows(body.H, 7))
	case sizeLarge:
		l.full(body, 7, 8, experimentRows(body.H, 10))
		nw := min(60, w/3)
		l.experiments.W -= nw
		l.notes = canvas.Rect(l.experiments.W, l.experiments.Y, nw, l.experiments.H)
	}
	if side == paneOps && l.class >= sizeFull { // the lower part is theirs, while they are looked at
		h := body.Y + body.H - l.verdict.Y
		l.ops = canvas.Rect(body.X, l.verdict.Y, body.W, h)
		l.verdict, l.stalls, l.experiments, l.notes = canvas.Rectangle{}, canvas.Rectangle{}, canvas.Rectangle{}, canvas.Rectangle{}
	}
	return l
}

// experimentRows gives the table a little more on tall screens.
func experimentRows(h, base int) int { return base + max(0, h-34)/8 }

// full is the layout of a large terminal.
func (l *layout) full(b canvas.Rectangle, gauges, verdict, experiments int) {
	main := b.H - gauges - verdict - experiments
	kw := max(50, b.W*2/5)
	if b.W >= 160 {
		kw = max(56, b.W/3)
	}
	y := b.Y
	l.gauges = canvas.Rect(b.X, y, b.W, gauges)
	y += gauges
	l.timeline = canvas.Rect(b.X, y, b.W-kw, main)
	l.knobs = canvas.Rect(b.W-kw, y, kw, main)
	y += main
	vw := b.W / 2
	l.verdict = canvas.Rect(b.X, y, vw, verdict)
	l.stalls = canvas.Rect(vw, y, b.W-vw, verdict)
	y += verdict
	l.experiments = canvas.Rect(b.X, y, b.W, experiments)
}

// compact keeps gauges, timeline and knobs, and one of the other panels.
func (l *layout) compact(b canvas.Rectangle, side panel) {
	const gauges = 5
	lower := max(8, (b.H-gauges)*2/5)
	main := b.H - gauges - lower
	y := b.Y
	l.gauges = canvas.Rect(b.X, y, b.W, gauges)
	y += gauges
	l.timeline = canvas.Rect(b.X, y, b.W, main)
	y += main
	kw := max(36, b.W*9/20)
	l.knobs = canvas.Rect(b.X, y, kw, lower)
	*l.panel(side) = canvas.Rect(kw, y, b.W-kw, lower)
}

func (l *layout) panel(p panel) *canvas.Rectangle {
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

// box draws a panel's border and its title; pane is 0 for what has no focus.
func (m *Model) box(r canvas.Rectangle, title string, pane panel) canvas.Pen {
	key := ""
	if pane != 0 {
		key = paneKeys[pane]
	}
	return m.c.Box(r, key, title, pane != 0 && pane == m.focus)
}

var paneKeys = [...]string{"", "1", "2", "3", "4", "5", "6"}
