package attribution

import (
	"cmp"
	"math"
	"slices"

	"dev.gpustall/engine/trace"
)

// OpTable is where the device's time went in one segment, operation by operation,
// as its timed steps show.
type OpTable struct {
	Segment trace.Segment
	Rows    []OpRow // in the order of the step
	Total   int64   // ns of all rows together

	Steps, Timed int     // of the segment, and how many of them were timed
	Samples      float64 // in a timed step, on average
	Busy, Wall   int64   // ns, of the timed steps; Wall without pauses
	StepTime     int64   // ns, the median of the steps that were not timed; 0 when there are too few
	Extra        float64 // how much longer a timed step takes than one that is not timed, as a share; NaN when unknown
	Copy         int64   // ns of copies to the device, in all steps of the segment
	CopyShare    float64 // Copy as a share of all its steps' time; copies may overlap computing
	CopyBytes    int64
}

// OpRow is one operation of the step, or several grouped.
type OpRow struct {
	trace.OpTime
	Ops   int     // launches of the step that are in it
	Share float64 // of the time of all ops, 0 to 1
	Step  float64 // of the timed steps' wall time, 0 to 1; NaN when unknown
}

// Add adds o's calls. Names and extremes stay r's.
func (r *OpRow) Add(o *OpRow) {
	r.Ops += o.Ops
	r.Calls += o.Calls
	r.Total += o.Total
	r.FLOPs += o.FLOPs
	r.Bytes += o.Bytes
	r.Share += o.Share
	r.Step += o.Step
}

// Mean returns the time of one call, in ns; NaN without calls.
func (r *OpRow) Mean() float64 { return float64(r.Total) / float64(r.Calls) }

// TFLOPs returns the rate in 10^12 floating-point operations a second, counted from the shape;
// NaN when there are none.
func (r *OpRow) TFLOPs() float64 { return rate(r.FLOPs, r.Total) / 1e3 }

// GBs returns the rate in 10^9 bytes a second, from the fewest bytes that the shape needs; NaN
// when there are none.
func (r *OpRow) GBs() float64 { return rate(r.Bytes, r.Total) }

func rate(v float64, ns int64) float64 {
	if v <= 0 || ns <= 0 {
		return math.NaN()
	}
	return v / float64(ns)
}

// Cost returns the share of the segment's time that timing the ops cost. This is the extra time
// of a timed step, times the number of timed steps. It is NaN when unknown.
func (t *OpTable) Cost() float64 {
	if t.Steps == 0 {
		return math.NaN()
	}
	return t.Extra * float64(t.Timed) / float64(t.Steps)
}

// fewSteps is how many steps a median needs at least.
const fewSteps = 5

// Ops returns the table of one segment. It has no rows when none of its steps was
// timed.
func Ops(s *trace.Snapshot, g trace.Segment) OpTable {
	t := OpTable{Segment: g, Extra: math.NaN()}
	for i := range s.Ops {
		if o := &s.Ops[i]; o.Segment == g.Index && o.Calls > 0 {
			t.Rows = append(t.Rows, OpRow{OpTime: *o, Ops: 1})
			t.Total += o.Total
		}
	}
	all := s.Tally(g.Index)
	t.Steps, t.Timed = int(all.All.Steps), int(all.Timed.Steps)
	t.Copy, t.CopyBytes = all.All.Copy, all.All.Bytes
	t.Busy, t.Wall = all.Timed.Busy, all.Timed.Active()
	if wall := all.All.Active(); wall > 0 {
		t.CopyShare = float64(t.Copy) / float64(wall)
	}
	t.Samples = float64(all.Timed.Samples) / float64(t.Timed)
	if all.Plain.N() >= fewSteps {
		t.StepTime = trace.Quantile(0.5, &all.Plain)
		if all.Probed.N() >= fewSteps && t.StepTime > 0 {
			t.Extra = float64(trace.Quantile(0.5, &all.Probed))/float64(t.StepTime) - 1
		}
	}
	t.shares()
	return t
}

// shares fills in the rows' shares. Because the table may lag behind the steps, a row's share of
// the step is its share of the ops times the utilisation of the timed steps.
func (t *OpTable) shares() {
	busy := math.NaN()
	if t.Wall > 0 {
		busy = float64(t.Busy) / float64(t.Wall)
	}
	for i := range t.Rows {
		r := &t.Rows[i]
		r.Share = float64(r.Total) / float64(max(t.Total, 1))
		r.Step = r.Share * busy
	}
}

// OpGroup says what the rows of a group have in common.
type OpGroup uint8

// The groups of ops.
const (
	ByOp    OpGroup = iota // every launch of the step by itself
	ByKind                 // launches of the same name
	ByLayer                // launches of the same layer
	ByPhase                // launches of the same phase of the step
)

// Group joins rows of the same name, layer or phase, in the order in which they first occur.
// Fields that differ within a group stay empty; Min and Max are 0.
func (t *OpTable) Group(by OpGroup) []OpRow {
	if by == ByOp {
		return slices.Clone(t.Rows)
	}
	at := map[string]int{}
	var out []OpRow
	for i := range t.Rows {
		r := &t.Rows[i]
		key := [...]string{ByKind: r.Name, ByLayer: r.Layer, ByPhase: r.Phase}[by]
		j, ok := at[key]
		if !ok {
			j = len(out)
			at[key] = j
			g := OpRow{OpTime: trace.OpTime{Segment: r.Segment, Name: r.Name, Layer: r.Layer, Phase: r.Phase, Variant: r.Variant}}
			out = append(out, g)
		}
		g := &out[j]
		for _, f := range []struct {
			have *string
			of   string
		}{{&g.Name, r.Name}, {&g.Layer, r.Layer}, {&g.Phase, r.Phase}, {&g.Variant, r.Variant}} {
			if *f.have != f.of {
				*f.have = ""
			}
		}
		g.Add(r)
	}
	return out
}

// SortOps puts the rows that take most time first.
func SortOps(rows []OpRow) {
	slices.SortStableFunc(rows, func(a, b OpRow) int { return cmp.Compare(b.Total, a.Total) })
}

// OpChange is an op in two segments. A and B are its time in one step, in ns, on average over the
// timed steps. They are 0 where the segment has no such op.
type OpChange struct {
	Name, Layer, Phase string
	A, B               float64
	VariantA, VariantB string
}

// Ratio returns B's time for a sample over A's; NaN where either is missing.
func (c *OpChange) Ratio(a, b *OpTable) float64 {
	if c.A <= 0 || c.B <= 0 || !(a.Samples > 0) || !(b.Samples > 0) {
		return math.NaN()
	}
	return c.B / b.Samples / (c.A / a.Samples)
}

// CompareOps sets the rows of two segments side by side, by op, kind or layer. A's come first, in
// their order, and then those that only B has.
func CompareOps(a, b *OpTable, by OpGroup) []OpChange {
	type key struct{ name, layer, phase string }
	at := map[key]int{}
	var out []OpChange
	find := func(r *OpRow) *OpChange {
		k := key{r.Name, r.Layer, r.Phase}
		switch by {
		case ByKind:
			k = key{name: r.Name}
		case ByLayer:
			k = key{layer: r.Layer}
		case ByPhase:
			k = key{phase: r.Phase}
		}
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out = append(out, OpChange{Name: k.name, Layer: k.layer, Phase: k.phase})
		}
		return &out[i]
	}
	for i := range a.Rows {
		r := &a.Rows[i]
		c := find(r)
		c.A += a.perStep(r)
		c.VariantA = r.Variant
	}
	for i := range b.Rows {
		r := &b.Rows[i]
		c := find(r)
		c.B += b.perStep(r)
		c.VariantB = r.Variant
	}
	return out
}

// perStep returns a row's time in one step, in ns.
func (t *OpTable) perStep(r *OpRow) float64 {
	if t.Timed == 0 {
		return 0
	}
	return r.Share * float64(t.Busy) / float64(t.Timed)
}

// StepOps returns the time of all ops in one timed step, in ns.
func (t *OpTable) StepOps() float64 {
	if t.Timed == 0 {
		return 0
	}
	return float64(t.Busy) / float64(t.Timed)
}
