package tui

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"dev.gpustall/engine/stall"
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
func (o *ops) draw(m *Model, r rect) {
	p := m.box(r, "Device ops", paneOps)
	t := &o.table
	if len(o.rows) > 0 {
		if m.pic.snap.Meta.Emulated {
			p.text(stBadge, " EMULATED ").text(stDim, " ")
		}
		p.text(stDim, "#").plain(stNormal, int64(t.Segment.Index)).text(stDim, ", ").int(stNormal, int64(t.Timed)).text(stDim, " of ").
			int(stNormal, int64(t.Steps)).text(stDim, pick(t.Steps == 1, " step timed", " steps timed"))
		if p.left() > 30 {
			p.text(stDim, ", by ").text(stNormal, groupWords[o.group]).text(stDim, ", sorted by ").text(stNormal, sortWords[o.sort])
		}
		p.text(stDim, " ")
	}
	in := r.inner()
	in.x++
	in.w -= 2
	if in.empty() {
		return
	}
	if in.h >= 6 {
		in.h--
		m.opsSummary(m.c.pen(in.x, in.y+in.h, in.w))
	}
	if in.h >= 9 && m.pic.driver != ([len(driverGauges)]gauge{}) {
		in.h--
		p := m.c.pen(in.x, in.y+in.h, in.w)
		m.driverLine(p.text(stDim, "driver: "))
	}
	if len(o.rows) == 0 {
		for i, line := range wrap(m.noOps(), in.w) {
			if i < in.h {
				m.c.pen(in.x, in.y+i, in.w).hint(stDim, line)
			}
		}
		return
	}
	o.drawTable(m, in)
}

// opsSummary is the line under the table: copies, memory, fp16's loss scale.
func (m *Model) opsSummary(p pen) {
	t := &m.op.table
	part := func(need int) bool { return p.left() >= need }
	if t.Steps > 0 && part(20) {
		p.text(stDim, "H2D ").pct(stNormal, t.CopyShare).text(stDim, " of the time")
		if t.Copy > 0 && part(14) {
			p.text(stDim, ", ").size(stNormal, float64(t.CopyBytes)/(float64(t.Copy)/1e9)).text(stDim, "/s")
		}
		p.space(2)
	}
	snap := &m.pic.snap
	if peak := snap.PeakBytes(); peak > 0 && part(18) {
		p.text(stDim, "memory peak ").memory(stNormal, peak)
		if held := snap.HeldBytes(&m.pic.seg); held > 0 && part(14) {
			p.text(stDim, ", held ").memory(stNormal, held)
		}
		if planned := snap.PlannedBytes(m.pic.at); planned > 0 && part(17) {
			p.text(stDim, ", planned ").memory(stNormal, planned)
		}
		p.space(2)
	}
	if l, ok := snap.LossScale(); ok && part(18) {
		p.text(stDim, "loss scale ").plain(stNormal, int64(l.Scale))
		if l.Skipped > 0 && part(14) {
			p.text(stDim, ", ").int(stWarn, l.Skipped).text(stWarn, " skipped")
			if part(16) {
				p.text(stDim, ", last in step ").int(stNormal, int64(l.LastOverflow))
			}
		} else if part(12) {
			p.text(stDim, ", none skipped")
		}
		p.space(2)
	}
	if cost := t.Cost(); !math.IsNaN(cost) && part(22) {
		p.text(stDim, "timing costs ").pct(stNormal, max(0, cost))
	}
}

// noOps says why there are no device ops to show, and what to press.
func (m *Model) noOps() string {
	can := m.o.Control != nil && m.live != nil && m.live.Outcome.Ended == 0
	switch {
	case len(m.pic.snap.Steps) == 0:
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
