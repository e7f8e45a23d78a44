package summary

import (
	"slices"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/trace"
)

// opSummary is one launch of the step, over the calls that were timed. The rates count the work
// of the operation and the least bytes that it must move, both computed from its shape.
type opSummary struct {
	Segment int32  `json:"segment"`
	Name    string `json:"name"`
	Layer   string `json:"layer"`
	Phase   string `json:"phase"`
	Variant string `json:"variant,omitempty"` // the kernel that was chosen, if there are several
	Calls   int64  `json:"calls"`             // timed
	Total   number `json:"total_s"`
	Mean    number `json:"mean_s"`
	Min     number `json:"min_s"`
	Max     number `json:"max_s"`
	Share   number `json:"share"`         // of the time of all ops
	Step    number `json:"share_of_step"` // of the wall time of the timed steps
	TFLOPs  number `json:"tflops"`
	GBPerS  number `json:"gb_per_s"`
}

// segmentSummary is a stretch of the run with constant knobs.
type segmentSummary struct {
	Index     int32  `json:"segment"`
	Name      string `json:"name"` // A is the baseline, the others go by their number
	Reason    string `json:"reason"`
	FirstStep int32  `json:"first_step"`
	Steps     int    `json:"steps"`
	measuredSegment
	Experiment  *int32      `json:"experiment,omitempty"` // the index in experiments of the one that it belongs to
	TimedSteps  int         `json:"timed_steps"`
	TimedExtra  number      `json:"timed_step_extra"` // how much longer a timed step took, as a part of a usual one
	TimingCost  number      `json:"op_timing_cost"`   // of the segment's time
	Memory      int64       `json:"memory_bytes"`     // the most that the device held in the segment
	CopyIn      number      `json:"h2d_s"`            // copies to the device, hidden behind compute or not
	CopyInShare number      `json:"h2d_share"`        // of the segment's time
	CopyRate    number      `json:"h2d_gb_per_s"`     // while copying
	Ops         []opSummary `json:"ops"`
}

// measuredSegment is what the steps of a segment measured. It leaves out the steps of the change
// and the first of the run.
type measuredSegment struct {
	Counted  int               `json:"steps_counted"`
	Rate     number            `json:"samples_per_s"`
	Util     number            `json:"device_utilization"`
	Data     number            `json:"data_share"`
	Mean     number            `json:"step_mean_s"`
	P50      number            `json:"step_p50_s"`
	P95      number            `json:"step_p95_s"`
	Baseline *Change           `json:"versus_baseline"` // of throughput; null for the baseline and for segments of an experiment
	Knobs    map[string]string `json:"knobs"`
}

// measuredOf returns what a segment measured. row is nil if the segment belongs to an experiment.
func measuredOf(s *trace.Snapshot, g *trace.Segment, row *attribution.SegmentStats) measuredSegment {
	t := s.Tally(g.Index)
	b := attribution.Breakdown{Totals: t.Steady}
	m := measuredSegment{Counted: int(b.Steps), Rate: none, Util: none, Data: none, Mean: none, P50: none, P95: none, Knobs: knobMap(g.Knobs)}
	if b.Steps > 0 {
		m.Rate, m.Util, m.Data = number(b.SamplesPerSecond()), number(b.Utilisation()), number(b.DataShare())
		if s.Alone(g) {
			m.Data = none
		}
		m.Mean, m.P50, m.P95 = seconds(b.Active()/b.Steps), seconds(t.Quantile(0.50)), seconds(t.Quantile(0.95))
	}
	if row != nil && !row.Baseline {
		change := ChangeOf(&row.VsA.Throughput)
		m.Baseline = &change
	}
	return m
}

// opTable lists the ops in the order of the step. It is empty if no step was timed.
func opTable(t *attribution.OpTable) []opSummary {
	out := make([]opSummary, 0, len(t.Rows))
	for i := range t.Rows {
		o := &t.Rows[i]
		s := opSummary{
			Segment: o.Segment, Name: o.Name, Layer: o.Layer, Phase: o.Phase, Variant: o.Variant, Calls: o.Calls,
			Total: seconds(o.Total), Mean: number(o.Mean() / 1e9), Min: seconds(o.Min), Max: seconds(o.Max),
			Share: number(o.Share), Step: number(o.Step), TFLOPs: number(o.TFLOPs()), GBPerS: number(o.GBs()),
		}
		if o.Max == 0 { // an older session has no minimum and maximum
			s.Min, s.Max = none, none
		}
		out = append(out, s)
	}
	return out
}

// opTables holds the segments, each with its own ops, and the ops of the last segment that has
// any.
type opTables struct {
	Ops          []opSummary      `json:"ops"`
	SegmentTable []segmentSummary `json:"segment_table"`
}

// opTablesOf lists segments and ops. rows are those of attribution.Segments.
func opTablesOf(s *trace.Snapshot, rows []attribution.SegmentStats) opTables {
	out := opTables{Ops: []opSummary{}, SegmentTable: []segmentSummary{}}
	for i := range s.Segments {
		g := s.Segments[i]
		t := attribution.Ops(s, g)
		ops := opTable(&t)
		var row *attribution.SegmentStats
		name := (&attribution.SegmentStats{Segment: g}).Name()
		if r := slices.IndexFunc(rows, func(r attribution.SegmentStats) bool { return r.Segment.Index == g.Index }); r >= 0 {
			row = &rows[r]
			name = row.Name()
		}
		segment := segmentSummary{
			measuredSegment: measuredOf(s, &g, row), Name: name,
			Index: g.Index, Reason: g.Reason, FirstStep: g.FirstStep, Steps: t.Steps, TimedSteps: t.Timed,
			TimedExtra: number(t.Extra), TimingCost: number(t.Cost()), Memory: s.HeldBytes(&g),
			CopyIn: seconds(t.Copy), CopyInShare: number(t.CopyShare), CopyRate: number(float64(t.CopyBytes) / float64(t.Copy)),
			Ops: ops,
		}
		if x := trace.ExperimentOf(s.Experiments, g.Index); x != nil {
			segment.Experiment = &x.Index
		}
		out.SegmentTable = append(out.SegmentTable, segment)
		if len(ops) > 0 {
			out.Ops = ops
		}
	}
	return out
}
