package panel

import (
	"sort"
	"strconv"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// zooms are the widths of a timeline column, in ns.
var zooms = []int64{
	100e3, 200e3, 500e3, 1e6, 2e6, 5e6, 10e6, 20e6, 50e6, 100e6, 200e6, 500e6, 1e9, 2e9, 5e9,
}

// parts is how many kinds of time are added up apart in each column of a lane.
const parts = trace.NumCauses

// CauseHue returns the colour of a cause, and of the worker's phase that is charged to it.
func CauseHue(c trace.Cause) canvas.Hue { return canvas.Series + canvas.Hue(c.Info().Colour) }

var _ [canvas.SeriesLen - trace.NumCauses]struct{} // every cause has a colour of its own

// laneType is how a lane is added up and drawn.
type laneType uint8

const (
	lanePhases laneType = iota // a worker: the phase that dominates the column
	laneQueue                  // ready batches
	laneHost                   // the step loop
	laneScript                 // what a script does with its batch
	laneBar                    // busy share of the column as a height
	laneStall                  // the cause that dominates the column
)

// lane is one row of the timeline.
type lane struct {
	track trace.TrackID
	typ   laneType
	hue   canvas.Hue
	busy  int64 // ns in the window
}

// Timeline is the panel with one lane for each worker, the queue, the step loop and the device.
// It adds the spans up in columns. A column begins at a multiple of its width, so that columns
// do not flicker as time moves.
type Timeline struct {
	Card
	screen Screen

	zoom   int
	chosen bool // the user chose the zoom
	picked bool // Autozoom did once
	cols   int
	first  int64 // index of the first column
	record       // of the columns
	known  int64 // ns up to which the device's steps are known
	lanes  []lane
	acc    []float32 // [lane][column][part], ns or queue value + 1
	busyAt [trace.NumTracks]int8

	scroll int   // first worker shown
	cursor int64 // ns; below 0: none
	filter string
	typing bool // the user types the filter

	said     explanation
	capacity int64 // of the ready queue, last seen
	ready    int64
	script   bool // there were spans of what the script does with its batch
	recorded bool // there are spans in the window
}

// explanation is the text under the lanes.
type explanation struct {
	lines    []string
	ofDevice int      // how many of the lines, from the first, are about the device
	tall     lines    // how many of these should have room
	about    [3]int64 // what the lines are about, see explain
	from     int64    // when the lines were written, ns of the session's time
}

// NewTimeline makes the panel.
func NewTimeline(s Screen) *Timeline {
	t := &Timeline{Card: Card{Key: "1", Name: "timeline", Title: "Timeline", Small: true}, screen: s, zoom: 5, cursor: -1}
	t.Keys = []Binding{
		{Keys: leftRightKeys, Show: LeftRight, Hint: "cursor", Replay: "cursor", Help: "move the cursor", Do: t.pressedArrow},
		{Keys: "z Z", Hint: "zoom", Replay: "zoom"},
		{Keys: "[ ]", Hint: "rewind", Replay: "move"},
		{Keys: "g G", Hint: "start, end", Replay: "start, end"},
		{Keys: "/", Hint: "filter", Replay: "filter"},
		{Keys: upDownKeys, Show: UpDown, Hint: "scroll", Replay: "scroll", Help: "scroll", Do: func(key string) tea.Cmd {
			d, _ := direction(key)
			t.scroll = max(0, t.scroll+d)
			return nil
		}},
		{Keys: biggerKeys, Also: biggerAlso, Show: "H L", Hint: "far", Replay: "far", Help: biggerHelp, Do: t.pressedArrow},
	}
	return t
}

// Place asks for what the other bands leave.
func (*Timeline) Place(Space) Place { return Place{Band: mainBand} }

// Draw draws the lanes and the explanation.
func (t *Timeline) Draw(v *View, r canvas.Rectangle) {
	t.head(v, &v.Head)
	drawMoment(v, r)
	t.drawLanes(v, r)
}

// Resize sets the columns of the terminal inside the panel's box.
func (t *Timeline) Resize(w int) { t.cols = max(1, w-laneLabel-laneShare) }

// Cols returns the number of columns.
func (t *Timeline) Cols() int { return t.cols }

// Queue returns how many batches are ready in the newest column, and the capacity of the
// queue.
func (t *Timeline) Queue() (ready, capacity int64) { return t.ready, t.capacity }

// Loosen lets the explanation take fewer lines at once.
func (t *Timeline) Loosen() { t.said.tall.loosen() }

// pressedArrow moves the cursor. It freezes the screen first.
func (t *Timeline) pressedArrow(key string) tea.Cmd {
	t.screen.Freeze()
	d, far := direction(key)
	t.moveCursor(d * [...]int{strideOne: 1, strideShift: 10, strideCtrl: 40}[far])
	t.Explain(t.screen.See(t))
	return nil
}

// TypeFilter lets the user type the text that the names of the lanes must contain.
func (t *Timeline) TypeFilter() {
	t.setFilter("")
	t.typing = true
	t.screen.Prompt(&Prompt{Question: "show lanes named ", Most: 24, Changed: t.setFilter, End: func(text string, ok bool) {
		t.typing = false
		t.setFilter(Pick(ok, text, ""))
	}})
}

// DropFilter shows all lanes again, and reports whether it had to.
func (t *Timeline) DropFilter() bool {
	if t.filter == "" {
		return false
	}
	t.setFilter("")
	return true
}

// setFilter chooses the lanes and adds the spans at hand up again.
func (t *Timeline) setFilter(text string) {
	t.filter = text
	if v := t.screen.See(t); v.Live != nil {
		t.Update(v.Pic, t.spans)
		t.said.about = [3]int64{}
		t.Explain(v)
	}
}

// Cursor returns the moment under the cursor in ns, below 0 where there is no cursor.
func (t *Timeline) Cursor() int64 { return t.cursor }

// DropCursor removes the cursor.
func (t *Timeline) DropCursor() { t.cursor = -1 }

// ShiftCursor moves the cursor by ns, so that it stays in its column when the window moves.
func (t *Timeline) ShiftCursor(ns int64) {
	if t.cursor >= 0 {
		t.cursor = max(0, t.cursor+ns)
	}
}

// head writes how much time the columns show, and the filter of the lanes.
func (t *Timeline) head(v *View, p *canvas.Pen) {
	p.Bytes(canvas.Normal, units.Narrow.AppendTime(p.Buf(), int64(t.cols)*t.Bin())).Text(canvas.Dim, ", ").
		Bytes(canvas.Normal, units.Narrow.AppendExact(p.Buf(), t.Bin())).Text(canvas.Dim, " a column ")
	switch {
	case t.typing:
		p.Text(canvas.Key, " filter: /").Text(canvas.Bold, t.filter).Text(canvas.Cursor, " ").Text(canvas.Dim, " enter ")
	case t.filter != "":
		p.Text(canvas.Key, " /").Text(canvas.Key, t.filter).Text(canvas.Dim, " ")
	}
}

// Bin returns the width of a column in ns.
func (t *Timeline) Bin() int64 { return zooms[t.zoom] }

// Window returns the interval that the columns cover when they end at edge.
func (t *Timeline) Window(edge int64) (from, to int64) {
	last := edge / t.Bin()
	return (last - int64(t.cols) + 1) * t.Bin(), edge
}

// Autozoom picks the zoom that shows what the device waits for: a stall is some columns wide,
// and several stalls fit. Where the device hardly waits, about eight steps fit. After the first
// time it zooms only by three levels or more, and only while the screen moves (moves). It
// reports whether it zoomed, and leaves a zoom that the user chose alone.
func (t *Timeline) Autozoom(w *Window, moves bool) bool {
	if t.chosen || t.cols == 0 || t.picked && !moves {
		return false
	}
	if w.Steps() < 3 { // the first steps are long: they must not leave the columns empty
		before := t.zoom
		for t.zoom < len(zooms)-1 && t.Bin()*int64(t.cols) < 2*(t.edge-t.known) {
			t.zoom++
		}
		return t.zoom != before
	}
	least := 8 * w.Mean
	if w.Util < 0.98 {
		least = max(w.Idle*int64(t.cols)/stallCols, 2*w.Mean)
	}
	z := len(zooms) - 1
	for z > 0 && zooms[z-1]*int64(t.cols) >= least {
		z--
	}
	if d := z - t.zoom; t.picked && -2 <= d && d <= 2 {
		return false
	}
	t.picked, t.zoom = true, z
	return true
}

// stallCols is the least width of a stall of usual length, in columns.
const stallCols = 8

// partOf returns the part of a column to which the time of a span is added. On most lanes it is the
// number of the cause to which the span is charged when the device waits for it. That also gives
// the colour and the letter. On a lane with one kind of time it is 0. ok is false for spans that do
// not count.
func partOf(s *trace.Span, l *lane) (part int, ok bool) {
	switch l.typ {
	case laneStall:
		return int(s.Cause()), true
	case laneBar:
		return 0, s.Kind != trace.KindStarved
	case laneScript:
		return int(s.Kind - trace.KindBackward), s.Kind.IsPart()
	}
	c, ok := s.Kind.Cause()
	return int(c), ok
}

// timedPart is the part of the compute lane that marks columns in which a timed step begins. The
// busy time is in part 0.
const timedPart = 1

// SpanWindow returns the interval of spans that the timeline needs for the moment at. It has a
// margin for the time that passes until the snapshot is taken.
func (t *Timeline) SpanWindow(live *trace.Snapshot, at int64) (from, to int64) {
	edge := min(at, live.Now) - 500e6
	if n := len(live.Recent); n > 0 && live.Outcome.Ended != 0 && at >= live.Now {
		edge = min(edge, live.Recent[n-1].End)
	}
	from, _ = t.Window(max(0, edge))
	return max(from, 0), max(at, 1)
}

// Update adds up the spans of the window that ends at the picture's edge.
func (t *Timeline) Update(p *Picture, spans []trace.Span) {
	if p.Snap.Outcome.Ended != 0 {
		spans = spans[:sort.Search(len(spans), func(i int) bool { return spans[i].Start >= p.Edge })]
	}
	t.edge, t.spans, t.steps, t.known, t.recorded = p.Edge, spans, p.Snap.Recent, p.Edge, false
	if n := len(p.Snap.Recent); n > 0 && p.Snap.Outcome.Ended == 0 {
		t.known = min(t.edge, p.Snap.Recent[n-1].End)
	}
	from, _ := t.Window(t.edge)
	t.first = from / t.Bin()
	if t.cursor >= 0 {
		t.holdCursor()
	}
	t.layLanes(p)
	n := len(t.lanes) * t.cols * parts
	if n > cap(t.acc) {
		t.acc = make([]float32, n+n/2)
	}
	t.acc = t.acc[:n]
	clear(t.acc)
	bin := t.Bin()
	end := min(t.edge, from+int64(t.cols)*bin)
	for i := range spans {
		s := &spans[i]
		li := t.busyAt[s.Track]
		if li < 0 {
			continue
		}
		l := &t.lanes[li]
		row := t.acc[int(li)*t.cols*parts : (int(li)+1)*t.cols*parts]
		if l.typ == laneQueue {
			if c := s.Start/bin - t.first; c >= 0 && c < int64(t.cols) && s.Start <= end {
				row[int(c)*parts] = float32(s.Arg) + 1
			}
			if s.Start <= from {
				row[0] = float32(s.Arg) + 1 // the level at the beginning of the window
			}
			if s.Start <= end {
				t.ready = int64(s.Arg)
				if s.Flags > 0 {
					t.capacity = int64(s.Flags)
				}
			}
			continue
		}
		part, ok := partOf(s, l)
		if !ok {
			continue
		}
		a, b := max(s.Start, from), min(s.End, end)
		if b <= a {
			continue
		}
		t.recorded = true
		if !(l.typ == laneHost && s.Kind == trace.KindTransition) { // a transition overlaps other spans
			l.busy += b - a
		}
		c := a/bin - t.first
		if s.Kind == trace.KindCompute && s.Flags&trace.FlagTimed != 0 && s.Start >= from {
			row[int(c)*parts+timedPart] = 1 // a nanosecond: too little to be seen as time
		}
		for a < b {
			next := min(b, (t.first+c+1)*bin)
			row[int(c)*parts+part] += float32(next - a)
			a = next
			c++
		}
	}
	t.carryQueue()
}

// layLanes makes the list of lanes: workers first, then the queue and the device.
func (t *Timeline) layLanes(p *Picture) {
	workers, _ := strconv.Atoi(p.value("num_workers"))
	pins := false
	inline := workers == 0 && p.HasSegment && p.Snap.Meta.Imported == ""
	for i := range t.spans {
		switch tr := t.spans[i].Track; {
		case tr >= trace.TrackWorker0:
			workers = max(workers, int(tr-trace.TrackWorker0)+1)
		case tr == trace.TrackInline:
			inline = true
		case tr == trace.TrackPin:
			pins = true
		case tr == trace.TrackScript:
			t.script = true
		}
	}
	workers = min(workers, trace.MaxWorkers)
	for i := range t.busyAt {
		t.busyAt[i] = -1
	}
	t.lanes = t.lanes[:0]
	if inline {
		t.addLane(lane{track: trace.TrackInline, typ: lanePhases})
	}
	for i := range workers {
		t.addLane(lane{track: trace.Worker(i), typ: lanePhases})
	}
	if pins {
		t.addLane(lane{track: trace.TrackPin, typ: lanePhases})
	}
	if t.script {
		t.addLane(lane{track: trace.TrackScript, typ: laneScript})
	}
	t.addLane(lane{track: trace.TrackStep, typ: laneHost})
	if workers > 0 { // there is no queue when loading inline
		t.addLane(lane{track: trace.TrackQueue, typ: laneQueue, hue: canvas.Transfer})
	}
	if !p.Snap.Meta.Watched() { // copies of a script are not recorded
		t.addLane(lane{track: trace.TrackCopy, typ: laneBar, hue: canvas.Transfer})
	}
	t.addLane(lane{track: trace.TrackCompute, typ: laneBar, hue: canvas.Compute})
	t.addLane(lane{track: trace.TrackStall, typ: laneStall})
}

func (t *Timeline) addLane(l lane) {
	if t.filter != "" && !strings.Contains(strings.ToLower(l.track.String()), strings.ToLower(t.filter)) {
		return
	}
	t.busyAt[l.track] = int8(len(t.lanes))
	t.lanes = append(t.lanes, l)
}

// carryQueue gives columns without a queue sample the previous sample.
func (t *Timeline) carryQueue() {
	li := t.busyAt[trace.TrackQueue]
	if li < 0 {
		return
	}
	row := t.acc[int(li)*t.cols*parts:]
	v := float32(0)
	for c := range t.cols {
		if row[c*parts] == 0 {
			row[c*parts] = v
		}
		v = row[c*parts]
	}
}

// column returns the part with the most time in one column of a lane, and the sum of all parts as a
// share of the column's known time.
func (t *Timeline) column(li, c int) (dominant int, busy float64) {
	a := t.acc[(li*t.cols+c)*parts : (li*t.cols+c+1)*parts]
	var sum, most float32
	for i, v := range a {
		sum += v
		if v > most {
			most, dominant = v, i
		}
	}
	start := (t.first + int64(c)) * t.Bin()
	known := min(t.Bin(), t.edge-start)
	if known <= 0 {
		return dominant, 0
	}
	return dominant, min(1, float64(sum)/float64(known))
}

// device reports whether a lane is known only up to the end of the last step.
func (l *lane) device() bool { return l.typ == laneBar || l.typ == laneStall }

// ZoomBy changes the width of a column and ends the automatic zoom.
func (t *Timeline) ZoomBy(d int) {
	t.chosen = true
	t.zoom = min(max(t.zoom+d, 0), len(zooms)-1)
}

// moveCursor moves the cursor by columns. The first move puts it at the right edge.
func (t *Timeline) moveCursor(d int) {
	if t.cursor < 0 {
		t.cursor = max(0, t.edge-1)
		if d < 0 {
			d++
		}
	}
	t.cursor += int64(d) * t.Bin()
	t.holdCursor()
}

// holdCursor keeps the cursor in the window.
func (t *Timeline) holdCursor() {
	t.cursor = max(min(max(t.cursor, t.first*t.Bin()), t.edge-1), 0)
}
