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
	VsA              Comparison // with the baseline; not OK for the baseline itself
}

// Segments returns one row a segment, in order. baseline is the Index of segment
// A; when there is none such, the first segment is.
func Segments(s *trace.Snapshot, baseline int32) []SegmentStats {
	bySegment := map[int32][]trace.Step{}
	for from := 0; from < len(s.Steps); {
		to := from + 1
		for to < len(s.Steps) && s.Steps[to].Segment == s.Steps[from].Segment {
			to++
		}
		seg := s.Steps[from].Segment
		bySegment[seg] = append(bySegment[seg], s.Steps[from:to]...)
		from = to
	}
	if !slices.ContainsFunc(s.Segments, func(g trace.Segment) bool { return g.Index == baseline }) && len(s.Segments) > 0 {
		baseline = s.Segments[0].Index
	}
	rows := make([]SegmentStats, 0, len(s.Segments))
	for _, g := range s.Segments {
		all := bySegment[g.Index]
		steps, excluded := Steady(all)
		if g.Transition == 0 {
			g.Transition = transitionCost(all)
		}
		b := Sum(steps)
		row := SegmentStats{
			Segment: g, Steps: len(steps), Excluded: excluded, Wall: b.Active(),
			SamplesPerSecond: b.SamplesPerSecond(), Utilisation: b.Utilisation(), DataShare: b.DataShare(), Breakdown: b,
		}
		row.P50, row.P95 = percentiles(steps)
		if g.Index != baseline {
			row.VsA = Compare(bySegment[baseline], all)
		}
		rows = append(rows, row)
	}
	return rows
}

// transitionCost is the compute stream's idle time in the steps of a transition.
func transitionCost(steps []trace.Step) int64 {
	var ns int64
	for i := range steps {
		if s := &steps[i]; s.Flags&trace.FlagTransition != 0 {
			ns += s.End - s.Start - s.Busy - s.Stall[trace.CausePaused]
		}
	}
	return ns
}

// percentiles returns the median and the 95th percentile (nearest rank) of the
// steps' active time.
func percentiles(steps []trace.Step) (p50, p95 time.Duration) {
	if len(steps) == 0 {
		return 0, 0
	}
	d := make([]int64, len(steps))
	for i := range steps {
		s := &steps[i]
		d[i] = s.End - s.Start - s.Stall[trace.CausePaused]
	}
	slices.Sort(d)
	rank := func(p int) time.Duration { return time.Duration(d[(len(d)*p+99)/100-1]) }
	return rank(50), rank(95)
}
