package tui

import (
	"strconv"

	"dev.gpustall/engine/trace"
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
func (t *timeline) draw(m *Model, r rect) {
	if r.empty() {
		return
	}
	var buf [3][trace.NumTracks]int
	plan := t.plan(r.h, &buf)
	y := r.y
	for i, li := range plan.workers {
		label := t.lanes[li].label
		t.drawLabel(m, r, y, label, stNormal)
		if i == 0 && plan.hidden > 0 {
			m.c.set(r.x+laneLabel-2, y, m.cs.up, stKey)
		}
		t.drawLane(m, r, y, li, 1)
		if plan.each > 1 {
			t.thicken(m, r.x+laneLabel, y+1)
		}
		y += plan.each
	}
	if len(plan.more) > 0 {
		t.drawMerged(m, r, y, plan.more)
		y++
	}
	for _, li := range plan.fixed {
		st := stNormal
		if t.lanes[li].typ == laneStall {
			st = stBadBold
		}
		if t.lanes[li].hue == hueCompute {
			t.drawArea(m, rect{r.x + laneLabel, y, t.cols, plan.tall - 1}, li, plan.tall)
			y += plan.tall - 1
		}
		t.drawLabel(m, r, y, t.lanes[li].label, st)
		t.drawLane(m, r, y, li, plan.tall)
		y++
	}
	if len(t.lanes) == 0 {
		p := m.c.pen(r.x+1, y, r.w-1)
		p.text(stDim, "no lane matches /").text(stBold, t.filter).text(stDim, "   / then enter shows all")
		y++
	}
	if plan.axis {
		t.drawAxis(m, r, y)
		y++
	}
	if t.cursor >= 0 {
		t.drawCursor(m, r, r.y, y)
	}
	y = r.y + r.h - plan.lines
	for i := range min(plan.lines, len(t.lines)) {
		st := stNormal
		if i >= t.said {
			st = stDim
		}
		p := m.c.pen(r.x+1, y+i, r.w-2)
		p.text(st, t.lines[i])
		if i == plan.lines-1 && i+1 < t.said {
			p.text(st, " ~")
		}
	}
}

func (t *timeline) drawLabel(m *Model, r rect, y int, label string, st style) {
	p := m.c.pen(r.x+1, y, laneLabel-1)
	p.text(st, label)
}

// drawLane draws one lane's columns and its share of the window.
func (t *timeline) drawLane(m *Model, r rect, y, li, tall int) {
	l := &t.lanes[li]
	x0 := r.x + laneLabel
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
			if l.hue == hueCompute {
				busy = min(1, busy*float64(tall))
			}
			t.barCell(m, x, y, busy, l.hue)
			continue
		}
		if busy < 0.01 {
			m.c.set(x, y, m.cs.idle, hueIdle.text())
			prev = -1
			continue
		}
		h, letter := hue(d), causeLetter[d]
		if l.typ == laneHost {
			letter = hostLetter[d] // context, not news: a thin line
			st := hueHost.text()
			if trace.Cause(d) == trace.CauseWorkers {
				st = stWarn
			}
			if prev == d && !m.cs.ascii {
				letter = m.cs.hor
			}
			prev = d
			m.c.set(x, y, letter, st)
			continue
		}
		solid := busy >= 0.5
		if !solid && letter >= 'A' && letter <= 'Z' {
			letter += 'a' - 'A'
		}
		// In colour a run of one phase is a block that starts with its letter;
		// without colour, and in part-filled columns, every cell has it.
		if solid && prev == d && !m.themes[m.theme].mono && !m.cs.ascii {
			letter = ' '
		}
		st := h.text()
		if solid {
			st = h.solid()
			prev = d
		} else {
			prev = -1
		}
		m.c.set(x, y, letter, st)
	}
	t.drawShare(m, r, y, l)
}

// thicken repeats the blocks of the row above, so that a lane is two rows high.
func (t *timeline) thicken(m *Model, x, y int) {
	for i := x; i < min(x+t.cols, m.c.w); i++ {
		above := m.c.cells[(y-1)*m.c.w+i]
		if (above.style-stHue)%2 == 0 { // text, not a block
			continue
		}
		r := ' '
		if m.themes[m.theme].mono || m.cs.ascii {
			r = above.r
		}
		m.c.set(i, y, r, above.style)
	}
}

// hostLetter is the step loop's letters: n waits in Next, l enqueues (launches),
// y synchronises, x applies a knob, | is paused.
var hostLetter = [slots]rune{
	trace.CauseWorkers: 'N', trace.CauseLaunch: 'L', trace.CauseSync: 'Y',
	trace.CauseTransition: 'X', trace.CausePaused: '|',
}

// drawArea draws the rows of a tall lane above its last one, which drawLane
// draws.
func (t *timeline) drawArea(m *Model, r rect, li, tall int) {
	for c := range t.cols {
		_, busy := t.column(li, c)
		e := int(busy*float64(8*tall) + 0.5)
		for row := range r.h {
			if k := min(e-8*(tall-1-row), 8); k > 0 {
				m.c.set(r.x+c, r.y+row, m.cs.levels[k], t.lanes[li].hue.text())
			}
		}
	}
}

func (t *timeline) barCell(m *Model, x, y int, busy float64, h hue) {
	if busy < 0.01 {
		m.c.set(x, y, m.cs.idle, hueIdle.text())
		return
	}
	m.c.set(x, y, m.cs.levels[level(busy)], h.text())
}

// level maps 0..1 to 1..8 eighths.
func level(f float64) int { return min(8, max(1, int(f*8+0.5))) }

// queueCell shows v-1 ready batches: a height, or a digit in ASCII. An empty
// queue is red and says 0.
func (t *timeline) queueCell(m *Model, x, y int, v float32) {
	switch {
	case v == 0:
		m.c.set(x, y, ' ', stNormal)
	case v < 1.5:
		m.c.set(x, y, '0', stBad)
	case m.cs.ascii || t.capacity == 0:
		r := '+'
		if v-1 < 10 {
			r = '0' + rune(v-1)
		}
		m.c.set(x, y, r, hueTransfer.text())
	default:
		m.c.set(x, y, m.cs.levels[level(float64(v-1)/float64(t.capacity))], hueTransfer.text())
	}
}

// drawShare prints the lane's busy share, or the queue's level.
func (t *timeline) drawShare(m *Model, r rect, y int, l *lane) {
	var b [24]byte
	if l.typ == laneQueue {
		n := strconv.AppendInt(b[:0], t.ready, 10)
		if t.capacity > 0 {
			n = strconv.AppendInt(append(n, '/'), t.capacity, 10)
		}
		if len(n) > laneShare-1 && t.capacity > 0 {
			n = appendPct(b[:0], float64(t.ready)/float64(t.capacity))
		}
		m.c.right(r.x+r.w-laneShare, y, laneShare-1, stDim, n)
		return
	}
	end := t.edge
	if l.device() {
		end = t.known
	}
	span := end - max(0, t.first*t.bin())
	if span <= 0 {
		return
	}
	f := float64(l.busy) / float64(span)
	st := stDim
	switch l.typ {
	case laneStall:
		st = stallStyle(f)
	case laneBar:
		if l.hue == hueCompute {
			st = utilStyle(f)
		}
	}
	m.c.right(r.x+r.w-laneShare, y, laneShare-1, st, appendPct(b[:0], min(f, 1)))
}

// drawMerged draws several workers as one row of mean occupancy.
func (t *timeline) drawMerged(m *Model, r rect, y int, lanes []int) {
	p := m.c.pen(r.x+1, y, laneLabel-1)
	p.text(stDim, "+").plain(stDim, int64(len(lanes))).text(stDim, " more")
	sum := lane{typ: lanePhases}
	for c := range t.cols {
		total := 0.0
		for _, li := range lanes {
			_, busy := t.column(li, c)
			total += busy
		}
		t.barCell(m, r.x+laneLabel+c, y, total/float64(len(lanes)), hueIdle)
	}
	for _, li := range lanes {
		sum.busy += t.lanes[li].busy / int64(len(lanes))
	}
	t.drawShare(m, r, y, &sum)
}

// drawAxis draws times relative to the right edge, and the knob changes.
func (t *timeline) drawAxis(m *Model, r rect, y int) {
	x0 := r.x + laneLabel
	for c := range t.cols {
		m.c.set(x0+c, y, m.cs.hor, stBorder)
	}
	var b [32]byte
	for c := 0; c < t.cols-6; c += 24 {
		back := t.edge - (t.first+int64(c))*t.bin()
		if back > t.edge {
			continue
		}
		p := m.c.pen(x0+c, y, t.cols-c)
		p.bytes(stDim, appendDur(b[:0], -back))
	}
	if now := m.c.pen(x0+t.cols-4, y, 4); !m.frozen && t.cols > 12 {
		now.text(stDim, " now")
	}
	segs := m.pic.snap.Segments
	for i := len(segs) - 1; i > 0; i-- {
		c := segs[i].Start/t.bin() - t.first
		if c < 0 {
			break
		}
		if c < int64(t.cols) {
			p := m.c.pen(x0+int(c), y, t.cols-int(c))
			p.rune(stStaged, m.cs.up).text(stStaged, "#").plain(stStaged, int64(segs[i].Index)).space(1)
		}
	}
}

func (t *timeline) drawCursor(m *Model, r rect, y0, y1 int) {
	c := t.cursor/t.bin() - t.first
	if c < 0 || c >= int64(t.cols) {
		return
	}
	x := r.x + laneLabel + int(c)
	for y := y0; y < y1; y++ {
		m.c.restyle(x, y, stCursor)
	}
}
