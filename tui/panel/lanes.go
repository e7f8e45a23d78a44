package panel

import (
	"strconv"
	"unicode"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// The widths of the timeline's margins: the label on the left, the share on the right.
const (
	laneLabel = 9
	laneShare = 7
)

// laneRows says what each row of the panel shows.
type laneRows struct {
	workers []int // lane indices
	fixed   []int
	more    []int // workers merged into one row; empty: none
	hidden  int   // workers above the first one shown
	axis    bool
	each    int // rows of a worker's lane
	stall   int // rows of the STALL lane
	tall    int // rows of the compute lane
	lines   int // of the explanation
}

// fit chooses what the h rows show. If there is little room, it leaves out what matters least.
// The order is, from what matters most: STALL, compute, H2D, the queue, a line of explanation,
// some workers, all of the explanation, the other workers, the host, the script.
func (t *Timeline) fit(h int, buf *[3][trace.NumTracks]int) (r laneRows) {
	const most, some = 4, 3 // lines of explanation, and rows of some workers
	workers, fixed := buf[0][:0], buf[1][:0]
	host, script := -1, -1
	for i := range t.lanes {
		switch t.lanes[i].typ {
		case lanePhases:
			workers = append(workers, i)
		case laneHost:
			host = i
		case laneScript:
			script = i
		default:
			fixed = append(fixed, i)
		}
	}
	rows := h
	if h >= 6 {
		r.lines = 1
		rows--
	}
	if h >= 8 {
		r.axis = true
		rows--
	}
	if len(fixed) > rows {
		fixed = fixed[len(fixed)-max(rows, 0):]
	}
	rows -= len(fixed)
	if more := min(t.said.tall.n-1, most-1, rows-min(len(workers), some)); r.axis && more > 0 {
		r.lines += more
		rows -= more
	}
	for _, li := range [...]int{host, script} {
		if li >= 0 && rows > min(len(workers), 4) {
			fixed = append(fixed, 0)
			copy(fixed[1:], fixed)
			fixed[0] = li
			rows--
		}
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
	r.tall, r.each, r.stall = 1, 1, 1
	if len(r.more) > 0 {
		return r
	}
	spare := rows - len(r.workers)
	for len(r.workers) > 0 && r.each < 4 && spare >= len(r.workers)+4 {
		r.each++
		spare -= len(r.workers)
	}
	if spare >= 6 {
		r.stall = min(spare/3, 4)
		spare -= r.stall - 1
	}
	if spare >= 3 {
		r.tall = min(1+spare/2, 8)
		spare -= r.tall - 1
	}
	r.lines = max(r.lines, min(len(t.said.lines), r.lines+spare))
	return r
}

// drawLanes draws the lanes, the axis and the explanation into r.
func (t *Timeline) drawLanes(v *View, r canvas.Rectangle) {
	if r.Empty() {
		return
	}
	var buf [3][trace.NumTracks]int
	rows := t.fit(r.H, &buf)
	y := r.Y
	for i, li := range rows.workers {
		t.drawLabel(v, r, y, li, canvas.Normal)
		if i == 0 && rows.hidden > 0 {
			v.C.Set(r.X+laneLabel-2, y, v.C.Glyphs.Up, canvas.Key)
		}
		t.drawLane(v, r, y, li, 1)
		for range rows.each - 1 {
			y++
			t.thicken(v, r.X+laneLabel, y)
		}
		y++
	}
	if len(rows.more) > 0 {
		t.drawMerged(v, r, y, rows.more)
		y++
	}
	for _, li := range rows.fixed {
		st := canvas.Normal
		if t.lanes[li].typ == laneStall {
			st = canvas.BadBold
		}
		if t.lanes[li].track == trace.TrackCompute {
			t.drawArea(v, canvas.Rect(r.X+laneLabel, y, t.cols, rows.tall-1), li, rows.tall)
			y += rows.tall - 1
		}
		t.drawLabel(v, r, y, li, st)
		t.drawLane(v, r, y, li, rows.tall)
		y++
		for range Pick(t.lanes[li].typ == laneStall, rows.stall-1, 0) {
			t.thicken(v, r.X+laneLabel, y)
			y++
		}
	}
	if len(t.lanes) == 0 {
		p := v.C.Pen(r.X+1, y, r.W-1)
		p.Text(canvas.Dim, "no lane matches /").Text(canvas.Bold, t.filter).Text(canvas.Dim, "   / then enter shows all")
		y++
	}
	if rows.axis {
		t.drawAxis(v, r, y)
		y++
	}
	if t.cursor >= 0 {
		t.drawCursor(v, r, r.Y, y)
	}
	y = r.Y + r.H - rows.lines
	for i := range min(rows.lines, len(t.said.lines)) {
		st := canvas.Normal
		if i >= t.said.ofDevice {
			st = canvas.Dim
		}
		p := v.C.Pen(r.X+1, y+i, r.W-2)
		p.Text(st, t.said.lines[i])
		if i == rows.lines-1 && i+1 < t.said.ofDevice {
			p.Text(st, " ~")
		}
	}
}

func (t *Timeline) drawLabel(v *View, r canvas.Rectangle, y, li int, st canvas.Style) {
	p := v.C.Pen(r.X+1, y, laneLabel-1)
	p.Text(st, t.lanes[li].track.String())
}

// drawLane draws one lane's columns and its share of the window.
func (t *Timeline) drawLane(v *View, r canvas.Rectangle, y, li, tall int) {
	l := &t.lanes[li]
	x0 := r.X + laneLabel
	prev := -1
	for c := range t.cols {
		x := x0 + c
		d, busy := t.column(li, c)
		if (t.first+int64(c)+1)*t.Bin() <= 0 {
			continue // it lies before the run
		}
		if l.device() && busy == 0 && (t.first+int64(c))*t.Bin() >= t.known {
			prev = -1
			continue // its step has not completed
		}
		switch l.typ {
		case laneQueue:
			t.queueCell(v, x, y, t.acc[(li*t.cols+c)*parts])
			continue
		case laneBar:
			if l.track == trace.TrackCompute {
				busy = min(1, busy*float64(tall))
			}
			barCell(v, x, y, busy, l.hue)
			continue
		}
		if busy < 0.01 {
			v.C.Set(x, y, v.C.Glyphs.Idle, canvas.Idle.Text())
			prev = -1
			continue
		}
		if l.typ == laneScript {
			letter := unicode.ToUpper(rune((trace.KindBackward + trace.Kind(d)).Info().Letter))
			if prev == d && !v.C.Glyphs.ASCII {
				letter = v.C.Glyphs.Hor
			}
			prev = d
			v.C.Set(x, y, letter, canvas.Host.Text())
			continue
		}
		cause := trace.Cause(d)
		h, letter := CauseHue(cause), cause.Info().Letter
		if l.typ == laneHost {
			st := canvas.Host.Text() // a thin line, because it is only context
			if cause == trace.CauseWorkers {
				letter, st = rune(trace.KindNext.Info().Letter), canvas.Warn // it waits for data, whatever the cause of that
				letter = unicode.ToUpper(letter)
			}
			if prev == d && !v.C.Glyphs.ASCII {
				letter = v.C.Glyphs.Hor
			}
			prev = d
			v.C.Set(x, y, letter, st)
			continue
		}
		solid := busy >= 0.5
		if !solid && letter >= 'A' && letter <= 'Z' {
			letter += 'a' - 'A'
		}
		// In colour, adjacent cells of one phase are a block that starts with its letter. Without
		// colour, and in part-filled columns, every cell has the letter.
		if solid && prev == d && !v.C.Theme.Mono && !v.C.Glyphs.ASCII {
			letter = ' '
		}
		st := h.Text()
		if solid {
			st = h.Solid()
			prev = d
		} else {
			prev = -1
		}
		v.C.Set(x, y, letter, st)
	}
	t.drawShare(v, r, y, l)
}

// thicken repeats the blocks of the row above, for a lane that is several rows high.
func (t *Timeline) thicken(v *View, x, y int) {
	for i := x; i < min(x+t.cols, v.C.W); i++ {
		r, st := v.C.At(i, y-1)
		if !st.Solid() {
			continue
		}
		if !v.C.Theme.Mono && !v.C.Glyphs.ASCII {
			r = ' '
		}
		v.C.Set(i, y, r, st)
	}
}

// drawArea draws the rows of a tall lane, except for the last, which drawLane draws.
func (t *Timeline) drawArea(v *View, r canvas.Rectangle, li, tall int) {
	for c := range t.cols {
		_, busy := t.column(li, c)
		v.C.Height(r.X+c, r.Y, tall, busy, t.lanes[li].hue.Text())
	}
}

// barCell shows how much of the column was busy, as a height.
func barCell(v *View, x, y int, busy float64, h canvas.Hue) {
	if busy < 0.01 {
		v.C.Set(x, y, v.C.Glyphs.Idle, canvas.Idle.Text())
		return
	}
	v.C.Set(x, y, v.C.Glyphs.Levels[level(busy)], h.Text())
}

// level returns a share in eighths, from 1 to 8.
func level(f float64) int { return min(8, max(1, int(f*8+0.5))) }

// queueCell draws the number of batches that are ready: as a height, or as a digit in ASCII. sample
// is that number plus one, or 0 before the first sample. An empty queue is a red 0.
func (t *Timeline) queueCell(v *View, x, y int, sample float32) {
	switch {
	case sample == 0:
		v.C.Set(x, y, ' ', canvas.Normal)
	case sample < 1.5:
		v.C.Set(x, y, '0', canvas.Bad)
	case v.C.Glyphs.ASCII || t.capacity == 0:
		r := '+'
		if sample-1 < 10 {
			r = '0' + rune(sample-1)
		}
		v.C.Set(x, y, r, canvas.Transfer.Text())
	default:
		v.C.Set(x, y, v.C.Glyphs.Levels[level(float64(sample-1)/float64(t.capacity))], canvas.Transfer.Text())
	}
}

// drawShare writes the lane's busy share, or the queue's level.
func (t *Timeline) drawShare(v *View, r canvas.Rectangle, y int, l *lane) {
	var b [24]byte
	if l.typ == laneQueue {
		n := strconv.AppendInt(b[:0], t.ready, 10)
		if t.capacity > 0 {
			n = strconv.AppendInt(append(n, '/'), t.capacity, 10)
		}
		if len(n) > laneShare-1 && t.capacity > 0 {
			n = units.Narrow.AppendPercent(b[:0], float64(t.ready)/float64(t.capacity))
		}
		v.C.Right(r.X+r.W-laneShare, y, laneShare-1, canvas.Dim, n)
		return
	}
	end := t.edge
	if l.device() {
		end = t.known
	}
	span := end - max(0, t.first*t.Bin())
	if span <= 0 {
		return
	}
	if !t.recorded { // unknown is not 0 %
		v.C.Right(r.X+r.W-laneShare, y, laneShare-1, canvas.Dim, append(b[:0], '-'))
		return
	}
	f := float64(l.busy) / float64(span)
	st := canvas.Dim
	switch l.typ {
	case laneStall:
		st = StallStyle(f)
	case laneBar:
		if l.track == trace.TrackCompute {
			st = utilStyle(f, v.Win.Starved)
		}
	}
	v.C.Right(r.X+r.W-laneShare, y, laneShare-1, st, units.Narrow.AppendPercent(b[:0], min(f, 1)))
}

// drawMerged draws several workers as one row, with the mean of their busy shares.
func (t *Timeline) drawMerged(v *View, r canvas.Rectangle, y int, lanes []int) {
	p := v.C.Pen(r.X+1, y, laneLabel-1)
	if t.lanes[lanes[0]].track == trace.TrackWorker0 { // these are all workers
		p.Text(canvas.Dim, "w0-").Text(canvas.Dim, t.lanes[lanes[len(lanes)-1]].track.String())
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
		barCell(v, r.X+laneLabel+c, y, total/float64(len(lanes)), canvas.Idle)
	}
	for _, li := range lanes {
		sum.busy += t.lanes[li].busy / int64(len(lanes))
	}
	t.drawShare(v, r, y, &sum)
}
