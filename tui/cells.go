package tui

import (
	"strconv"

	"dev.gpustall/engine/trace"
)

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
	if t.lanes[lanes[0]].track == trace.TrackWorker0 { // all of them
		p.text(stDim, "w0-").text(stDim, t.lanes[lanes[len(lanes)-1]].label)
	} else {
		p.text(stDim, "+").plain(stDim, int64(len(lanes))).text(stDim, " more")
	}
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

// drawAxis draws where a step begins whose ops are timed, times relative to the
// right edge, and the knob changes.
func (t *timeline) drawAxis(m *Model, r rect, y int) {
	x0 := r.x + laneLabel
	for c := range t.cols {
		m.c.set(x0+c, y, m.cs.hor, stBorder)
	}
	if li := t.busyAt[trace.TrackCompute]; li >= 0 && m.pic.value("time_ops") != "every" {
		for c := range t.cols {
			if t.acc[(int(li)*t.cols+c)*slots+timedSlot] > 0 {
				m.c.set(x0+c, y, 't', stKey)
			}
		}
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
