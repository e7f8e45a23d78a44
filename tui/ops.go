package tui

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/stall"
	"dev.gpustall/tui/canvas"
)

// opSort is what the table of device ops is sorted by.
type opSort uint8

const (
	sortTotal opSort = iota
	sortMean
	sortName
	numSorts
)

var sortWords = [numSorts]string{"total", "mean", "name"}

// groups that b steps through, and what they are called.
var (
	opGroups   = [...]stall.OpGroup{stall.ByOp, stall.ByKind, stall.ByLayer, stall.ByPhase}
	groupWords = [...]string{stall.ByOp: "launch", stall.ByKind: "op", stall.ByLayer: "layer", stall.ByPhase: "phase"}
)

// ops is the panel of device ops: the table of the configuration shown, beside
// that of baseline A.
type ops struct {
	group  stall.OpGroup
	sort   opSort
	scroll int

	table, base stall.OpTable
	rows        []stall.OpRow // grouped and sorted
	versus      []float64     // the time of a sample over baseline A's, by row; NaN where unknown
	compared    bool          // with a baseline
}

// set takes the tables that were worked out.
func (o *ops) set(table, base stall.OpTable) {
	o.table, o.base = table, base
	o.arrange()
}

// arrange groups and sorts the rows.
func (o *ops) arrange() {
	o.rows = o.table.Group(o.group)
	slices.SortStableFunc(o.rows, func(a, b stall.OpRow) int {
		switch o.sort {
		case sortMean:
			return cmp.Compare(b.Mean(), a.Mean())
		case sortName:
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Layer, b.Layer), cmp.Compare(a.Phase, b.Phase))
		}
		return cmp.Compare(b.Total, a.Total)
	})
	o.versus = o.versus[:0]
	o.compared = len(o.base.Rows) > 0 && len(o.rows) > 0 && o.base.Segment.Index != o.table.Segment.Index
	if !o.compared {
		return
	}
	changes := stall.CompareOps(&o.base, &o.table, o.group)
	for i := range o.rows {
		v := math.NaN()
		for j := range changes {
			if c := &changes[j]; o.same(&o.rows[i], c) {
				v = c.Ratio(&o.base, &o.table)
				break
			}
		}
		o.versus = append(o.versus, v)
	}
}

// same reports whether a change is that of a row.
func (o *ops) same(r *stall.OpRow, c *stall.OpChange) bool {
	switch o.group {
	case stall.ByKind:
		return r.Name == c.Name
	case stall.ByLayer:
		return r.Layer == c.Layer
	case stall.ByPhase:
		return r.Phase == c.Phase
	}
	return r.Name == c.Name && r.Layer == c.Layer && r.Phase == c.Phase
}

// key handles the panel's own keys.
func (o *ops) key(name string) {
	switch name {
	case "up", "k":
		o.scroll--
	case "down", "j":
		o.scroll++
	case "pgup":
		o.scroll -= 10
	case "pgdown":
		o.scroll += 10
	case "b":
		o.group = opGroups[(slices.Index(opGroups[:], o.group)+1)%len(opGroups)]
		o.scroll = 0
		o.arrange()
	case "s":
		o.sort = (o.sort + 1) % numSorts
		o.scroll = 0
		o.arrange()
	}
	o.scroll = max(0, min(o.scroll, len(o.rows))) // drawing knows how many have room
}

// draw draws the panel.
func (o *ops) draw(m *Model, r canvas.Rectangle) {
	p := m.box(r, "Device ops", paneOps)
	t := &o.table
	if len(o.rows) > 0 {
		if m.pic.snap.Meta.Emulated {
			p.Text(canvas.Badge, " EMULATED ").Text(canvas.Dim, " ")
		}
		p.Text(canvas.Dim, "#").Int(canvas.Normal, int64(t.Segment.Index)).Text(canvas.Dim, ", ").Bytes(canvas.Normal, figures.AppendCount(p.Buf(), t.Timed)).Text(canvas.Dim, " of ").
			Bytes(canvas.Normal, figures.AppendCount(p.Buf(), t.Steps)).Text(canvas.Dim, pick(t.Steps == 1, " step timed", " steps timed"))
		if p.Left() > 30 {
			p.Text(canvas.Dim, ", by ").Text(canvas.Normal, groupWords[o.group]).Text(canvas.Dim, ", sorted by ").Text(canvas.Normal, sortWords[o.sort])
		}
		p.Text(canvas.Dim, " ")
	}
	in := r.Inner()
	in.X++
	in.W -= 2
	if in.Empty() {
		return
	}
	if in.H >= 6 {
		in.H--
		m.opsSummary(m.c.Pen(in.X, in.Y+in.H, in.W))
	}
	if in.H >= 9 && m.pic.driver != ([len(driverGauges)]gauge{}) {
		in.H--
		p := m.c.Pen(in.X, in.Y+in.H, in.W)
		m.driverLine(p.Text(canvas.Dim, "driver: "))
	}
	if len(o.rows) == 0 {
		for i, line := range canvas.Wrap(m.noOps(), in.W) {
			if i < in.H {
				m.c.Text(in.X, in.Y+i, in.W, canvas.Dim, line)
			}
		}
		return
	}
	o.drawTable(m, in)
}

// opsSummary is the line under the table: copies, memory, fp16's loss scale.
func (m *Model) opsSummary(p canvas.Pen) {
	t := &m.op.table
	part := func(need int) bool { return p.Left() >= need }
	if t.Steps > 0 && part(20) {
		p.Text(canvas.Dim, "H2D ").Bytes(canvas.Normal, appendPct(p.Buf(), t.CopyShare)).Text(canvas.Dim, " of the time")
		if t.Copy > 0 && part(14) {
			p.Text(canvas.Dim, ", ").Bytes(canvas.Normal, appendSize(p.Buf(), float64(t.CopyBytes)/(float64(t.Copy)/1e9))).Text(canvas.Dim, "/s")
		}
		p.Space(2)
	}
	snap := &m.pic.snap
	if peak := snap.PeakBytes(); peak > 0 && part(18) {
		p.Text(canvas.Dim, "memory peak ").Bytes(canvas.Normal, appendMemory(p.Buf(), peak))
		if held := snap.HeldBytes(&m.pic.seg); held > 0 && part(14) {
			p.Text(canvas.Dim, ", held ").Bytes(canvas.Normal, appendMemory(p.Buf(), held))
		}
		if planned := snap.PlannedBytes(m.pic.at); planned > 0 && part(17) {
			p.Text(canvas.Dim, ", planned ").Bytes(canvas.Normal, appendMemory(p.Buf(), planned))
		}
		p.Space(2)
	}
	if l, ok := snap.LossScale(); ok && part(18) {
		p.Text(canvas.Dim, "loss scale ").Int(canvas.Normal, int64(l.Scale))
		if l.Skipped > 0 && part(14) {
			p.Text(canvas.Dim, ", ").Bytes(canvas.Warn, figures.AppendCount(p.Buf(), l.Skipped)).Text(canvas.Warn, " skipped")
			if part(16) {
				p.Text(canvas.Dim, ", last in step ").Bytes(canvas.Normal, figures.AppendCount(p.Buf(), l.LastOverflow))
			}
		} else if part(12) {
			p.Text(canvas.Dim, ", none skipped")
		}
		p.Space(2)
	}
	if cost := t.Cost(); !math.IsNaN(cost) && part(22) {
		p.Text(canvas.Dim, "timing costs ").Bytes(canvas.Normal, appendPct(p.Buf(), max(0, cost)))
	}
}

// noOps says why there are no device ops to show, and what to press.
func (m *Model) noOps() string {
	can := m.o.Control != nil && m.live != nil && m.live.Outcome.Ended == 0
	switch {
	case len(m.pic.snap.Recent) == 0:
		return "no device ops before the first step"
	case m.pic.value("time_ops") == "off" && can:
		return "the ops are not timed: time_ops is off; press 2, select time_ops, change it to sampled and press enter"
	case m.pic.value("time_ops") == "off":
		return "the ops were not timed: time_ops was off"
	case m.pic.value("time_ops") == "":
		return "the session has no timed ops"
	case m.live != nil && m.live.Outcome.Ended != 0:
		return "no step of this configuration was timed"
	}
	return "no step of configuration #" + strconv.Itoa(int(m.pic.seg.Index)) + " was timed yet: the table comes with the first ones, every two seconds"
}
