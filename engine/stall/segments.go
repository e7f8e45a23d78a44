package stall

import (
	"slices"
	"time"

	"dev.gpustall/engine/trace"
)

// SegmentStats is one row of the experiments table: a segment's steady steps.
type SegmentStats struct {
	Segment          trace.Segment
	Steps            int   // that count
	Excluded         int   // that do not: transition and warm-up
	Wall             int64 // ns, active, of the steps that count
	SamplesPerSecond float64
	P50, P95         time.Duration // of a step
	Utilisation      float64       // 0 to 1
	DataShare        float64       // 0 to 1
	Breakdown        Breakdown
	Baseline         bool       // this is segment A
	VsA              Comparison // with the baseline; not OK for the baseline itself
}

// Segments returns one row a segment, in order. baseline is the Index of segment
// A; when there is none such, the first segment is.
func Segments(s *trace.Snapshot, baseline int32) []SegmentStats {
	if !slices.ContainsFunc(s.Segments, func(g trace.Segment) bool { return g.Index == baseline }) && len(s.Segments) > 0 {
		baseline = s.Segments[0].Index
	}
	a := s.Tally(baseline)
	rows := make([]SegmentStats, 0, len(s.Segments))
	for _, g := range s.Segments {
		t := s.Tally(g.Index)
		if g.Transition == 0 {
			g.Transition = t.Transition
		}
		b := Breakdown{t.Steady}
		row := SegmentStats{
			Segment: g, Steps: int(b.Steps), Excluded: int(t.Excluded()), Wall: b.Active(),
			SamplesPerSecond: b.SamplesPerSecond(), Utilisation: b.Utilisation(), DataShare: b.DataShare(), Breakdown: b,
			P50: time.Duration(t.Quantile(0.50)), P95: time.Duration(t.Quantile(0.95)),
		}
		if row.Baseline = g.Index == baseline; !row.Baseline {
			row.VsA = Compare(a, t)
		}
		rows = append(rows, row)
	}
	return rows
}
