package stall

import (
	"slices"
	"strconv"
	"time"

	"dev.gpustall/engine/evidence"
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
	Baseline         bool // this is segment A
	Stretch          evidence.Stretch
	VsA              evidence.Comparison // with the baseline; empty for the baseline itself
	VsBefore         evidence.Comparison // with the segment before; empty for the first
	Repeats          int                 // the first row with the same settings; -1 when this is it
	Again            evidence.Repeat     // of the same settings before, and these; without steps where either has none
}

// Name is what a segment is called: A is the baseline, the others go by their number.
func (s *SegmentStats) Name() string {
	if s.Baseline {
		return "A"
	}
	return "#" + strconv.Itoa(int(s.Segment.Index))
}

// Segments returns one row a segment, in order. Segment A is the session's choice,
// or its first segment where that is not among them.
func Segments(s *trace.Snapshot) []SegmentStats {
	baseline := s.Baseline.Segment
	if !slices.ContainsFunc(s.Segments, func(g trace.Segment) bool { return g.Index == baseline }) && len(s.Segments) > 0 {
		baseline = s.Segments[0].Index
	}
	rows := make([]SegmentStats, 0, len(s.Segments))
	for _, g := range s.Segments {
		t := s.Tally(g.Index)
		if g.Transition == 0 {
			g.Transition = t.Transition
		}
		b := Breakdown{t.Steady}
		row := SegmentStats{
			Segment: g, Steps: int(b.Steps), Excluded: int(t.Excluded()), Wall: b.Active(),
			SamplesPerSecond: b.SamplesPerSecond(), Utilisation: b.Utilisation(), DataShare: b.DataShare(), Breakdown: b, Stretch: stretch(t),
			P50: time.Duration(t.Quantile(0.50)), P95: time.Duration(t.Quantile(0.95)),
		}
		rows = append(rows, row)
	}
	h, a := history(rows), -1
	for i := range rows {
		if rows[i].Segment.Index == baseline {
			a, rows[i].Baseline = i, true
		}
	}
	pooled := repeat(h, rows, a)
	for i := range rows {
		switch {
		case i == a || a < 0:
		case rows[i].group(i) == rows[a].group(a): // pooled with it or not, a row is no part of what it is compared with
			rows[i].VsA = compare(h, &rows[a], &rows[i])
		default:
			rows[i].VsA = evidence.Compare(pooled[a], pooled[i], h, evidence.DefaultMargin)
		}
		if i > 0 {
			rows[i].VsBefore = compare(h, &rows[i-1], &rows[i])
		}
	}
	return rows
}

// group is the first row with the settings of row i, which s is.
func (s *SegmentStats) group(i int) int {
	if s.Repeats >= 0 {
		return s.Repeats
	}
	return i
}

// stretch sums up the steady steps of a segment for comparisons.
func stretch(t *trace.Tally) evidence.Stretch {
	list := t.Blocks.List()
	blocks := make([]evidence.Block, len(list))
	for i := range list {
		b := &list[i]
		blocks[i] = evidence.Block{Steps: int(b.Steps), Samples: b.Samples, Active: b.Active, Busy: b.Busy, Squares: b.Squares}
	}
	return evidence.Measure(evidence.Series{Start: t.From, Blocks: blocks})
}

// Compare relates segment b to a, given what the other rows tell of the host: how
// long its steps hang together.
func Compare(rows []SegmentStats, a, b *SegmentStats) evidence.Comparison {
	return compare(history(rows), a, b)
}

func compare(h evidence.History, a, b *SegmentStats) evidence.Comparison {
	return evidence.Compare(a.Stretch, b.Stretch, h, evidence.DefaultMargin)
}

func history(rows []SegmentStats) (h evidence.History) {
	for i := range rows {
		h.Learn(rows[i].Stretch)
	}
	return h
}
