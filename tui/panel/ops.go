package panel

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/tui/canvas"
)

// opGroups are the groups that b steps through. groupWords are their names.
var (
	opGroups   = [...]attribution.OpGroup{attribution.ByOp, attribution.ByKind, attribution.ByLayer, attribution.ByPhase}
	groupWords = [...]string{attribution.ByOp: "launch", attribution.ByKind: "op", attribution.ByLayer: "layer", attribution.ByPhase: "phase"}
)

// Ops is the panel of the device ops of the configuration shown, compared with those of
// baseline A.
type Ops struct {
	Card
	group     attribution.OpGroup
	table     canvas.Table[op]
	rows      []op
	shown, a  attribution.OpTable // of the configuration shown, and of A
	compared  bool                // shown is compared with a
	mostShare float64             // the share of the longest bar
	mfu       attribution.MFU     // of the configuration shown, where measured
	measured  bool                // mfu is known
}

// op is a row.
type op struct {
	attribution.OpRow
	versus float64 // its time for one sample, divided by that in baseline A; NaN where unknown
}

// NewOps makes the panel.
func NewOps() *Ops {
	o := &Ops{Card: Card{Key: "6", Name: "device ops", Title: "Device ops", Hint: "ops", Side: true, Instead: true}}
	o.table = canvas.Table[op]{Columns: o.columns(), By: "total", Shorten: 7, Marks: true, Cursor: -1, Pinned: -1}
	o.Keys = []Binding{
		scrollKeys(func(lines int) { o.table.ScrollBy(lines, len(o.rows)) }),
		{Keys: "b", Hint: "group", Replay: "group", Help: "group the rows", Do: o.regroup},
		{Keys: "s", Hint: "sort", Replay: "sort", Help: "sort by total, mean or name", Do: o.resort},
		{Keys: "esc", Hint: "back", Replay: "back"},
		{Keys: "a", Hint: "baseline A", Replay: "baseline A"},
	}
	return o
}

// Place asks for half of the screen, instead of the other side panels.
func (*Ops) Place(s Space) Place { return placeInstead(s) }

func (o *Ops) regroup(string) tea.Cmd {
	o.group = opGroups[(slices.Index(opGroups[:], o.group)+1)%len(opGroups)]
	o.table.Scroll = 0
	o.arrange()
	return nil
}

func (o *Ops) resort(string) tea.Cmd {
	o.table.SortNext()
	o.table.Scroll = 0
	o.arrange()
	return nil
}

// The width of an op's name, in full ("conv_backward_weight") and shortened.
const (
	opName      = 20
	opNameShort = 15
)

// columns returns the columns. The columns of the comparison need a baseline. The kernel
// and the extremes are shown only if each row is one launch.
func (o *Ops) columns() []canvas.Column[op] {
	byLaunch := func() bool { return o.group == attribution.ByOp }
	number := func(title string, w, drop int, number func(b []byte, r *op) []byte) canvas.Column[op] {
		return canvas.Column[op]{Title: title, W: w, Drop: drop, Right: true, Cell: func(p *canvas.Pen, r *op) {
			p.Bytes(canvas.Normal, number(p.Buf(), r))
		}}
	}
	sorted := func(c canvas.Column[op], by string, order func(a, b *op) int) canvas.Column[op] {
		c.Sort, c.Order = by, order
		return c
	}
	total := number("total", 8, 5, func(b []byte, r *op) []byte { return units.Narrow.AppendTime(b, r.Total) })
	mean := number("mean", 8, 2, func(b []byte, r *op) []byte { return units.Narrow.AppendTime(b, int64(math.Round(r.Mean()))) })
	longest := number("longest", 8, 10, func(b []byte, r *op) []byte {
		if r.Max == 0 {
			return append(b, '-')
		}
		return units.Narrow.AppendTime(b, r.Max)
	})
	longest.Shown = byLaunch
	return []canvas.Column[op]{
		{Title: "op", W: opName, Short: opNameShort, Cell: o.nameCell,
			Sort: "name", Order: func(a, b *op) int {
				return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Layer, b.Layer), cmp.Compare(a.Phase, b.Phase))
			}},
		{Title: "layer", W: 18, Short: 16, Drop: 1, Cell: o.layerCell},
		{Title: "phase", W: 9, Drop: 6, Shown: func() bool { return o.group != attribution.ByLayer },
			Cell: func(p *canvas.Pen, r *op) { p.Text(canvas.Dim, r.Phase) }},
		{Title: "of ops", W: 6, Right: true, Cell: func(p *canvas.Pen, r *op) { p.Bytes(canvas.Bold, units.Narrow.AppendPercent(p.Buf(), r.Share)) }},
		{W: 4, Most: 20, Drop: 9, Cell: func(p *canvas.Pen, r *op) {
			p.Bar(canvas.Compute.Text(), p.Left(), r.Share/max(o.mostShare, 1e-9))
		}},
		number("of step", 7, 7, func(b []byte, r *op) []byte { return units.Narrow.AppendPercent(b, r.Step) }),
		number("calls", 6, 8, func(b []byte, r *op) []byte { return units.AppendCount(b, r.Calls) }),
		sorted(total, "total", func(a, b *op) int { return cmp.Compare(b.Total, a.Total) }),
		sorted(mean, "mean", func(a, b *op) int { return cmp.Compare(b.Mean(), a.Mean()) }),
		longest,
		number("TFLOP/s", 8, 3, func(b []byte, r *op) []byte { return units.AppendRate(b, r.TFLOPs()) }),
		number("GB/s", 7, 9, func(b []byte, r *op) []byte { return units.AppendRate(b, r.GBs()) }),
		{Title: "vs A", W: 6, Drop: 4, Right: true, Shown: func() bool { return o.compared }, Cell: func(p *canvas.Pen, r *op) {
			st := canvas.Normal
			switch {
			case r.versus < 0.95:
				st = canvas.Good
			case r.versus > 1.05:
				st = canvas.Bad
			}
			p.Bytes(st, units.Narrow.AppendRatio(p.Buf(), units.Rough(r.versus)))
		}},
		{Title: "kernel", W: 18, Drop: 11, Shown: byLaunch, Cell: func(p *canvas.Pen, r *op) { p.Text(canvas.Dim, r.Variant) }},
	}
}

// nameCell writes the name of the row's group, or the number of launches in it.
func (o *Ops) nameCell(p *canvas.Pen, r *op) {
	name := r.Name
	if o.group == attribution.ByPhase {
		name = r.Phase
	}
	if name == "" && o.group == attribution.ByLayer {
		launches(p, r)
		return
	}
	name = Pick(name == "", "-", name)
	if p.Left() < opName {
		writeShort(p, name)
		return
	}
	p.Text(canvas.Normal, name)
}

func (o *Ops) layerCell(p *canvas.Pen, r *op) {
	if r.Layer == "" && (o.group == attribution.ByKind || o.group == attribution.ByPhase) {
		launches(p, r)
		return
	}
	p.Text(canvas.Dim, Pick(r.Layer == "", "-", r.Layer))
}

func launches(p *canvas.Pen, r *op) {
	p.Int(canvas.Dim, int64(r.Ops)).Text(canvas.Dim, Pick(r.Ops == 1, " launch", " launches"))
}

// writeShort writes an op's name with "backward" and "forward" as bwd and fwd.
func writeShort(p *canvas.Pen, name string) {
	for _, w := range [...][2]string{{"backward", "bwd"}, {"forward", "fwd"}} {
		if before, after, ok := strings.Cut(name, w[0]); ok {
			p.Text(canvas.Normal, before).Text(canvas.Normal, w[1]).Text(canvas.Normal, after)
			return
		}
	}
	p.Text(canvas.Normal, name)
}

// Set takes what the analysis found.
func (o *Ops) Set(found *Findings) {
	o.shown, o.a, o.mfu, o.measured = found.Ops, found.Base, found.MFU, found.HasMFU
	o.arrange()
}

// arrange makes the rows again: grouped, compared and sorted.
func (o *Ops) arrange() {
	o.compared = len(o.a.Rows) > 0 && len(o.shown.Rows) > 0 && o.a.Segment.Index != o.shown.Segment.Index
	var changes []attribution.OpChange
	if o.compared {
		changes = attribution.CompareOps(&o.a, &o.shown, o.group)
	}
	o.rows, o.mostShare = o.rows[:0], 0
	for _, r := range o.shown.Group(o.group) {
		row := op{r, math.NaN()}
		if i := slices.IndexFunc(changes, func(c attribution.OpChange) bool { return o.same(&r, &c) }); i >= 0 {
			row.versus = changes[i].Ratio(&o.a, &o.shown)
		}
		o.mostShare = max(o.mostShare, r.Share)
		o.rows = append(o.rows, row)
	}
	o.table.Sort(o.rows)
}

// same reports whether a change is about the ops of a row.
func (o *Ops) same(r *attribution.OpRow, c *attribution.OpChange) bool {
	switch o.group {
	case attribution.ByKind:
		return r.Name == c.Name
	case attribution.ByLayer:
		return r.Layer == c.Layer
	case attribution.ByPhase:
		return r.Phase == c.Phase
	}
	return r.Name == c.Name && r.Layer == c.Layer && r.Phase == c.Phase
}

// head writes which configuration the ops are of, and how they are arranged.
func (o *Ops) head(v *View, p *canvas.Pen) {
	if len(o.rows) == 0 {
		return
	}
	t := &o.shown
	p.Text(canvas.Dim, "#").Int(canvas.Normal, int64(t.Segment.Index)).Text(canvas.Dim, ", ")
	timed := t.Timed
	if v.Live.Meta.Imported != "" {
		timed = t.Steps // the profiler timed them all
	}
	p.Bytes(canvas.Normal, units.AppendCount(p.Buf(), timed)).Text(canvas.Dim, " of ").
		Bytes(canvas.Normal, units.AppendCount(p.Buf(), t.Steps)).Text(canvas.Dim, Pick(t.Steps == 1, " step timed", " steps timed"))
	if p.Left() > 30 {
		p.Text(canvas.Dim, ", by ").Text(canvas.Normal, groupWords[o.group]).Text(canvas.Dim, ", sorted by ").Text(canvas.Normal, o.table.By)
	}
	p.Text(canvas.Dim, " ")
}

// Draw draws the table, and under it a summary.
func (o *Ops) Draw(v *View, r canvas.Rectangle) {
	o.head(v, &v.Head)
	in := r.Indent()
	if in.Empty() {
		return
	}
	if in.H >= 6 {
		in.H--
		o.drawSummary(v, v.C.Pen(in.X, in.Y+in.H, in.W))
	}
	if in.H >= 9 && v.Pic.hasDriver() {
		in.H--
		p := v.C.Pen(in.X, in.Y+in.H, in.W)
		v.Pic.driverLine(p.Text(canvas.Dim, "driver: "))
	}
	if len(o.rows) == 0 {
		for i, line := range canvas.Wrap(noOps(v), in.W) {
			if i < in.H {
				v.C.Text(in.X, in.Y+i, in.W, canvas.Dim, line)
			}
		}
		return
	}
	o.table.Draw(v.C, in, o.rows)
}

// drawSummary draws the line under the table: copies, memory, the loss scale of fp16, MFU, and what
// timing the ops costs.
func (o *Ops) drawSummary(v *View, p canvas.Pen) {
	t := &o.shown
	part := func(need int) bool { return p.Left() >= need }
	if t.Steps > 0 && part(20) {
		p.Text(canvas.Dim, "H2D ").Bytes(canvas.Normal, units.Narrow.AppendPercent(p.Buf(), t.CopyShare)).Text(canvas.Dim, " of the time")
		if t.Copy > 0 && part(14) {
			p.Text(canvas.Dim, ", ").Bytes(canvas.Normal, units.Narrow.AppendTransfer(p.Buf(), float64(t.CopyBytes)/(float64(t.Copy)/1e9)))
		}
		p.Space(2)
	}
	snap := &v.Pic.Snap
	if peak := snap.PeakBytes(); peak > 0 && part(18) {
		p.Text(canvas.Dim, "memory peak ").Bytes(canvas.Normal, units.Narrow.AppendBytes(p.Buf(), peak))
		if held := snap.HeldBytes(&v.Pic.Segment); held > 0 && part(14) {
			p.Text(canvas.Dim, ", held ").Bytes(canvas.Normal, units.Narrow.AppendBytes(p.Buf(), held))
		}
		if planned := snap.PlannedBytes(v.Pic.At); planned > 0 && part(17) {
			p.Text(canvas.Dim, ", planned ").Bytes(canvas.Normal, units.Narrow.AppendBytes(p.Buf(), planned))
		}
		p.Space(2)
	}
	if l, ok := snap.LossScale(); ok && part(18) {
		p.Text(canvas.Dim, "loss scale ").Int(canvas.Normal, int64(l.Scale))
		if l.Skipped > 0 && part(14) {
			p.Text(canvas.Dim, ", ").Bytes(canvas.Warn, units.AppendCount(p.Buf(), l.Skipped)).Text(canvas.Warn, " skipped")
			if part(16) {
				p.Text(canvas.Dim, ", last in step ").Bytes(canvas.Normal, units.AppendCount(p.Buf(), l.LastOverflow))
			}
		} else if part(12) {
			p.Text(canvas.Dim, ", none skipped")
		}
		p.Space(2)
	}
	if o.measured && part(22) {
		p.Text(canvas.Dim, "MFU ").Bytes(canvas.Bold, units.Narrow.AppendPercent(p.Buf(), o.mfu.Share)).Text(canvas.Dim, " of ").
			Bytes(canvas.Normal, units.AppendRate(p.Buf(), o.mfu.Peak/1e12)).Text(canvas.Dim, " TFLOP/s ").Text(canvas.Dim, o.mfu.Type).Space(2)
	}
	if cost := t.Cost(); !math.IsNaN(cost) && part(22) {
		p.Text(canvas.Dim, "timing costs ").Bytes(canvas.Normal, units.Narrow.AppendPercent(p.Buf(), max(0, cost)))
	}
}

// noOps returns why there are no device ops to show, and what to press.
func noOps(v *View) string {
	ended := v.Live.Outcome.Ended != 0
	switch {
	case len(v.Pic.Snap.Recent) == 0:
		return "no device ops before the first step"
	case v.Live.Meta.Imported != "":
		return advice.NoOperators
	case v.Pic.value("time_ops") == "off" && v.CanSet && !ended:
		return "the ops are not timed: time_ops is off; press 2, select time_ops, change it to sampled and press enter"
	case v.Pic.value("time_ops") == "off":
		return "the ops were not timed: time_ops was off"
	case v.CanCapture && !ended:
		return "no steps of #" + strconv.Itoa(int(v.Pic.Segment.Index)) + " were captured: press o to run a few under PyTorch's profiler"
	case v.Pic.value("time_ops") == "":
		return "the session has no timed ops"
	case ended:
		return "no step with these settings was timed"
	}
	return "no step of #" + strconv.Itoa(int(v.Pic.Segment.Index)) + " was timed yet: the table comes with the first ones, every two seconds"
}
