package tui

import (
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// Widths of the timeline's margins: the label on the left, the share on the
// right.
const (
	laneLabel = 9
	laneShare = 7
)

// timelineCols is how many columns fit in a panel's inner width.
func timelineCols(w int) int { return max(1, w-laneLabel-laneShare) }

// rowPlan says what each row of the panel shows.
type rowPlan struct {
	workers []int // lane indices
	fixed   []int
	more    []int // workers merged into one row; empty: none
	hidden  int   // workers above the first one shown
	axis    bool
	each    int // rows of a worker's lane
	tall    int // rows of the compute lane
	lines   int // of explanation
}

// plan fits the lanes in h rows. What matters most stays longest: STALL,
// compute, H2D, the queue, then workers, the host last.
func (t *timeline) plan(h int, buf *[3][trace.NumTracks]int) (r rowPlan) {
	workers, fixed := buf[0][:0], buf[1][:0]
	host := -1
	for i := range t.lanes {
		switch t.lanes[i].typ {
		case lanePhases:
			workers = append(workers, i)
		case laneHost:
			host = i
		default:
			fixed = append(fixed, i)
		}
	}
	switch {
	case h >= 14:
		r.axis, r.lines = true, 3
	case h >= 10:
		r.axis, r.lines = true, 2
	case h >= 8:
		r.axis, r.lines = true, 1
	case h >= 6:
		r.lines = 1
	}
	rows := h - r.lines
	if r.axis {
		rows--
	}
	if len(fixed) > rows {
		fixed = fixed[len(fixed)-max(rows, 0):]
	}
	rows -= len(fixed)
	if host >= 0 && rows > min(len(workers), 4) {
		fixed = append(fixed, 0)
		copy(fixed[1:], fixed)
		fixed[0] = host
		rows--
	}
	r.fixed = fixed
	if len(workers) > rows && rows > 0 {
		t.scroll = min(max(t.scroll, 0), len(workers)-rows+1)
		r.hidden = t.scroll
		shown := workers[t.scroll:]
		if rest := len(shown) - (rows - 1); rest > 0 {
			r.more = buf[2][:0]
			r.more = append(r.more, shown[rows-1:]...)
			shown = shown[:rows-1]
		}
		workers = shown
	} else {
		t.scroll = 0
	}
	r.workers = workers[:min(len(workers), max(rows, 0))]
	r.tall, r.each = 1, 1
	spare := rows - len(r.workers)
	if len(r.more) == 0 && spare >= len(r.workers)+4 {
		r.each = 2
		spare -= len(r.workers)
	}
	if len(r.more) == 0 && spare >= 3 {
		r.tall = min(1+spare/2, 4)
	}
	return r
}

// draw draws the lanes, the axis and the explanation into r.
func (t *timeline) draw(m *Model, r canvas.Rectangle) {
	if r.Empty() {
		return
	}
	var buf [3][trace.NumTracks]int
	plan := t.plan(r.H, &buf)
	y := r.Y
	for i, li := range plan.workers {
		label := t.lanes[li].label
		t.drawLabel(m, r, y, label, canvas.Normal)
		if i == 0 && plan.hidden > 0 {
			m.c.Set(r.X+laneLabel-2, y, m.c.Glyphs.Up, canvas.Key)
		}
		t.drawLane(m, r, y, li, 1)
		if plan.each > 1 {
			t.thicken(m, r.X+laneLabel, y+1)
		}
		y += plan.each
	}
	if len(plan.more) > 0 {
		t.drawMerged(m, r, y, plan.more)
		y++
	}
	for _, li := range plan.fixed {
		st := canvas.Normal
		if t.lanes[li].typ == laneStall {
			st = canvas.BadBold
		}
		if t.lanes[li].track == trace.TrackCompute {
			t.drawArea(m, canvas.Rect(r.X+laneLabel, y, t.cols, plan.tall-1), li, plan.tall)
			y += plan.tall - 1
		}
		t.drawLabel(m, r, y, t.lanes[li].label, st)
		t.drawLane(m, r, y, li, plan.tall)
		y++
	}
	if len(t.lanes) == 0 {
		p := m.c.Pen(r.X+1, y, r.W-1)
		p.Text(canvas.Dim, "no lane matches /").Text(canvas.Bold, t.filter).Text(canvas.Dim, "   / then enter shows all")
		y++
	}
	if plan.axis {
		t.drawAxis(m, r, y)
		y++
	}
	if t.cursor >= 0 {
		t.drawCursor(m, r, r.Y, y)
	}
	y = r.Y + r.H - plan.lines
	for i := range min(plan.lines, len(t.lines)) {
		st := canvas.Normal
		if i >= t.said {
			st = canvas.Dim
		}
		p := m.c.Pen(r.X+1, y+i, r.W-2)
		p.Text(st, t.lines[i])
		if i == plan.lines-1 && i+1 < t.said {
			p.Text(st, " ~")
		}
	}
}

func (t *timeline) drawLabel(m *Model, r canvas.Rectangle, y int, label string, st canvas.Style) {
	p := m.c.Pen(r.X+1, y, laneLabel-1)
	p.Text(st, label)
}

// drawLane draws one lane's columns and its share of the window.
func (t *timeline) drawLane(m *Model, r canvas.Rectangle, y, li, tall int) {
	l := &t.lanes[li]
	x0 := r.X + laneLabel
	prev := -1
	for c := range t.cols {
		x := x0 + c
		d, busy := t.column(li, c)
		if (t.first+int64(c)+1)*t.bin() <= 0 {
			continue // before the run began
		}
		if l.device() && busy == 0 && (t.first+int64(c))*t.bin() >= t.known {
			prev = -1
			continue // its step has not completed
		}
		switch l.typ {
		case laneQueue:
			t.queueCell(m, x, y, t.acc[(li*t.cols+c)*slots])
			continue
		case laneBar:
			if l.track == trace.TrackCompute {
				busy = min(1, busy*float64(tall))
			}
			t.barCell(m, x, y, busy, l.hue)
			continue
		}
		if busy < 0.01 {
			m.c.Set(x, y, m.c.Glyphs.Idle, canvas.Idle.Text())
			prev = -1
			continue
		}
		cause := trace.Cause(d)
		h, letter := causeHue(cause), cause.Info().Letter
		if l.typ == laneHost {
			st := canvas.Host.Text() // context, not news: a thin line
			if cause == trace.CauseWorkers {
				letter, st = 'N', canvas.Warn // waiting in Next, whatever that is charged to
			}
			if prev == d && !m.c.Glyphs.ASCII {
				letter = m.c.Glyphs.Hor
			}
			prev = d
			m.c.Set(x, y, letter, st)
			continue
		}
		solid := busy >= 0.5
		if !solid && letter >= 'A' && letter <= 'Z' {
			letter += 'a' - 'A'
		}
		// In colour a run of one phase is a block that starts with its letter;
		// without colour, and in part-filled columns, every cell has it.
		if solid && prev == d && !m.c.Theme.Mono && !m.c.Glyphs.ASCII {
			letter = ' '
		}
		st := h.Text()
		if solid {
			st = h.Solid()
			prev = d
		} else {
			prev = -1
		}
		m.c.Set(x, y, letter, st)
	}
	t.drawShare(m, r, y, l)
}
