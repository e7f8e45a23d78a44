package advice

import (
	"fmt"
	"strings"

	"dev.gpustall/engine/evidence"
	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/stall"
	"dev.gpustall/engine/trace"
)

// Keep are the settings to keep.
type Keep struct {
	Segment int32        // whose they are
	Knobs   []trace.Knob // those that differ from the baseline's; none when its own are the ones
	Change  evidence.Comparison
	Text    string // in one sentence; empty when there was nothing to choose from
}

// name is what a segment is called: A is the baseline, the others go by their number.
func name(index, baseline int32) string {
	if index == baseline {
		return "A"
	}
	return fmt.Sprintf("#%d", index)
}

// keep recommends the fastest settings measured, on equal terms with the baseline.
func keep(s *trace.Snapshot, rows []stall.SegmentStats) Keep {
	a := baseline(rows)
	if a == nil {
		return Keep{}
	}
	best := a
	for i := range rows {
		r := &rows[i]
		if r != a && r.VsA.Throughput.Answer == evidence.Different && r.SamplesPerSecond > best.SamplesPerSecond && equalTerms(s, a, r) {
			best = r
		}
	}
	k := Keep{Segment: best.Segment.Index, Change: best.VsA}
	if best == a {
		if len(rows) > 1 {
			k.Text = "keep the baseline's settings: nothing that was tried was measurably faster on equal terms"
		}
		return k
	}
	k.Knobs = Changed(a.Segment.Knobs, best.Segment.Knobs)
	k.Text = fmt.Sprintf("keep segment %s, the fastest that was measured: %s throughput against the baseline", name(k.Segment, a.Segment.Index), &k.Change.Throughput)
	return k
}

// baseline is the row of the segment that the others are compared with.
func baseline(rows []stall.SegmentStats) *stall.SegmentStats {
	for i := range rows {
		if rows[i].Baseline {
			return &rows[i]
		}
	}
	return nil
}

// Changed lists the knobs of b that differ from a's.
func Changed(a, b []trace.Knob) []trace.Knob {
	was := map[string]string{}
	for _, k := range a {
		was[k.Name] = k.Value
	}
	var out []trace.Knob
	for _, k := range b {
		if v, ok := was[k.Name]; !ok || v != k.Value {
			out = append(out, k)
		}
	}
	return out
}

// Costly is where the device's own time goes.
type Costly struct {
	Ops  []stall.OpRow // those that take most, of one segment
	Text string        // in one sentence; empty when no op was timed
}

// mostCostly is how many ops are named.
const mostCostly = 3

// costly names the operations of a segment that take most of the device's time; of
// the last segment before it that has any, when its own were not timed.
func costly(s *trace.Snapshot, segment int32) Costly {
	for i := len(s.Segments) - 1; i >= 0; i-- {
		g := s.Segments[i]
		if g.Index > segment {
			continue
		}
		table := stall.Ops(s, g)
		if len(table.Rows) == 0 {
			continue
		}
		ops := table.Group(stall.ByOp)
		stall.SortOps(ops)
		c := Costly{Ops: ops[:min(mostCostly, len(ops))]}
		words := make([]string, len(c.Ops))
		for i := range c.Ops {
			o := &c.Ops[i]
			words[i] = o.Name
			if o.Layer != "" {
				words[i] += " of " + o.Layer
			}
			words[i] += fmt.Sprintf(" (%s)", figures.Prose.Percent(o.Share))
		}
		c.Text = "the device's own time goes first to " + strings.Join(words, ", ")
		return c
	}
	return Costly{}
}
