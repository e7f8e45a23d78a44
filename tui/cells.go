package tui

import (
	"strconv"

	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// thicken repeats the blocks of the row above, so that a lane is two rows high.
func (t *timeline) thicken(m *Model, x, y int) {
	for i := x; i < min(x+t.cols, m.c.W); i++ {
		r, st := m.c.At(i, y-1)
		if !st.Solid() {
			continue
		}
		if !m.c.Theme.Mono && !m.c.Glyphs.ASCII {
			r = ' '
		}
		m.c.Set(i, y, r, st)
	}
}

// drawArea draws the rows of a tall lane above its last one, which drawLane
// draws.
func (t *timeline) drawArea(m *Model, r canvas.Rectangle, li, tall int) {
	for c := range t.cols {
		_, busy := t.column(li, c)
		m.c.Column(r.X+c, r.Y, tall, busy, t.lanes[li].hue.Text())
	}
}

func (t *timeline) barCell(m *Model, x, y int, busy float64, h canvas.Hue) {
	if busy < 0.01 {
		m.c.Set(x, y, m.c.Glyphs.Idle, canvas.Idle.Text())
		return
	}
	m.c.Set(x, y, m.c.Glyphs.Levels[level(busy)], h.Text())
}

// level maps 0..1 to 1..8 eighths.
func level(f float64) int { return min(8, max(1, int(f*8+0.5))) }

// queueCell shows v-1 ready batches: a height, or a digit in ASCII. An empty
// queue is red and says 0.
func (t *timeline) queueCell(m *Model, x, y int, v float32) {
	switch {
	case v == 0:
		m.c.Set(x, y, ' ', canvas.Normal)
	case v < 1.5:
		m.c.Set(x, y, '0', canvas.Bad)
	case m.c.Glyphs.ASCII || t.capacity == 0:
		r := '+'
		if v-1 < 10 {
			r = '0' + rune(v-1)
		}
		m.c.Set(x, y, r, canvas.Transfer.Text())
	default:
		m.c.Set(x, y, m.c.Glyphs.Levels[level(float64(v-1)/float64(t.capacity))], canvas.Transfer.Text())
	}
}

// drawShare prints the lane's busy share, or the queue's level.
func (t *timeline) drawShare(m *Model, r canvas.Rectangle, y int, l *lane) {
	var b [24]byte
	if l.typ == laneQueue {
		n := strconv.AppendInt(b[:0], t.ready, 10)
		if t.capacity > 0 {
			n = strconv.AppendInt(append(n, '/'), t.capacity, 10)
		}
		if len(n) > laneShare-1 && t.capacity > 0 {
			n = appendPct(b[:0], float64(t.ready)/float64(t.capacity))
		}
		m.c.Right(r.X+r.W-laneShare, y, laneShare-1, canvas.Dim, n)
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
	st := canvas.Dim
	switch l.typ {
	case laneStall:
		st = stallStyle(f)
	case laneBar:
		if l.track == trace.TrackCompute {
			st = utilStyle(f)
		}
	}
	m.c.Right(r.X+r.W-laneShare, y, laneShare-1, st, appendPct(b[:0], min(f, 1)))
}

// drawMerged draws several workers as one row of mean occupancy.
func (t *timeline) drawMerged(m *Model, r canvas.Rectangle, y int, lanes []int) {
	p := m.c.Pen(r.X+1, y, laneLabel-1)
	if t.lanes[lanes[0]].track == trace.TrackWorker0 { // all of them
		p.Text(canvas.Dim, "w0-").Text(canvas.Dim, t.lanes[lanes[len(lanes)-1]].label)
	} else {
		p.Text(canvas.Dim, "+").Int(canvas.Dim, int64(len(lanes))).Text(canvas.Dim, " more")
	}
	sum := lane{typ: lanePhases}
	for c := range t.cols {
		total := 0.0
		for _, li := range lanes {
			_, busy := t.column(li, c)
			total += busy
		}
		t.barCell(m, r.X+laneLabel+c, y, total/float64(len(lanes)), canvas.Idle)
	}
	for _, li := range lanes {
		sum.busy += t.lanes[li].busy / int64(len(lanes))
	}
	t.drawShare(m, r, y, &sum)
}

// drawAxis draws where a step begins whose ops are timed, times relative to the
// right edge, and the knob changes.
func (t *timeline) drawAxis(m *Model, r canvas.Rectangle, y int) {
	x0 := r.X + laneLabel
	for c := range t.cols {
		m.c.Set(x0+c, y, m.c.Glyphs.Hor, canvas.Border)
	}
	if li := t.busyAt[trace.TrackCompute]; li >= 0 && m.pic.value("time_ops") != "every" {
		for c := range t.cols {
			if t.acc[(int(li)*t.cols+c)*slots+timedSlot] > 0 {
				m.c.Set(x0+c, y, 't', canvas.Key)
			}
		}
	}
	var b [32]byte
	for c := 0; c < t.cols-6; c += 24 {
		back := t.edge - (t.first+int64(c))*t.bin()
		if back > t.edge {
			continue
		}
		p := m.c.Pen(x0+c, y, t.cols-c)
		p.Bytes(canvas.Dim, appendDur(b[:0], -back))
	}
	if now := m.c.Pen(x0+t.cols-4, y, 4); !m.frozen && t.cols > 12 {
		now.Text(canvas.Dim, " now")
	}
	segs := m.pic.snap.Segments
	for i := len(segs) - 1; i > 0; i-- {
		c := segs[i].Start/t.bin() - t.first
		if c < 0 {
			break
		}
		if c < int64(t.cols) {
			p := m.c.Pen(x0+int(c), y, t.cols-int(c))
			p.Rune(canvas.Staged, m.c.Glyphs.Up).Text(canvas.Staged, "#").Int(canvas.Staged, int64(segs[i].Index)).Space(1)
		}
	}
}

func (t *timeline) drawCursor(m *Model, r canvas.Rectangle, y0, y1 int) {
	c := t.cursor/t.bin() - t.first
	if c < 0 || c >= int64(t.cols) {
		return
	}
	x := r.X + laneLabel + int(c)
	for y := y0; y < y1; y++ {
		m.c.Restyle(x, y, canvas.Cursor)
	}
}
