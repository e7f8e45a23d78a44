package attribution

import (
	"slices"
	"strconv"
	"time"

	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/trace"
)

// SegmentStats is one row of the experiments table: a segment's steady steps.
type SegmentStats struct {
	Segment          trace.Segment
	Steps            int   // that are compared
	Excluded         int   // steps left out: transition and warm-up
	Wall             int64 // ns, active, of the compared steps
	SamplesPerSecond float64
	P50, P95         time.Duration // of a step
	Utilisation      float64       // 0 to 1
	DataShare        float64       // 0 to 1
	Breakdown        Breakdown
	Baseline         bool // this is segment A
	Stretch          stats.Stretch
	VsA              stats.Comparison // with the baseline; empty for the baseline itself
	VsBefore         stats.Comparison // with the row before; empty for the first
	Repeats          int              // the first row with the same settings; -1 when it is this one
	Again            stats.Repeat     // compares the earlier rows of the same settings with this one; without steps where either has none

	series stats.Series // what Stretch is measured from
}

// Name returns what a segment is called: A is the baseline, the others have their number.
func (s *SegmentStats) Name() string {
	if s.Baseline {
		return "A"
	}
	return s.number()
}

func (s *SegmentStats) number() string { return "#" + strconv.Itoa(int(s.Segment.Index)) }

// Among returns the name of a segment in a sentence, "segment A" or "segment #4". It is empty
// where the session has only one segment. rows are Segments of the session.
func Among(s *trace.Snapshot, rows []SegmentStats, segment int32) string {
	if len(s.Segments) < 2 {
		return ""
	}
	r := SegmentStats{Segment: trace.Segment{Index: segment}}
	if i := slices.IndexFunc(rows, func(r SegmentStats) bool { return r.Segment.Index == segment }); i >= 0 {
		r = rows[i]
	}
	return "segment " + r.Name()
}

// Named returns the row that has a name, A or #2, and all names. The row is below 0 where none has
// it. The baseline can be named by its number too.
func Named(rows []SegmentStats, name string) (row int, names []string) {
	row = -1
	for i := range rows {
		names = append(names, rows[i].Name())
		if name == names[i] || name == rows[i].number() {
			row = i
		}
	}
	return row, names
}

// Segments returns one row for each segment, in order, without the segments of experiments. Segment
// A is the one that the session names, or else its first one.
//
// If the settings of two rows took turns in an experiment that had an answer, the rows are
// compared by the experiment.
func Segments(s *trace.Snapshot) []SegmentStats {
	rows := make([]SegmentStats, 0, len(s.Segments))
	for _, g := range s.Segments {
		if trace.ExperimentOf(s.Experiments, g.Index) != nil {
			continue
		}
		t := s.Tally(g.Index)
		if g.Transition == 0 {
			g.Transition = t.Transition
		}
		b := Breakdown{t.Steady}
		steps := series(t)
		row := SegmentStats{
			series: steps, Segment: g, Steps: int(b.Steps), Excluded: int(t.Excluded()), Wall: b.Active(),
			SamplesPerSecond: b.SamplesPerSecond(), Utilisation: b.Utilisation(), DataShare: b.DataShare(), Breakdown: b, Stretch: stats.Measure(steps),
			P50: time.Duration(t.Quantile(0.50)), P95: time.Duration(t.Quantile(0.95)),
		}
		rows = append(rows, row)
	}
	h := history(rows)
	a := slices.IndexFunc(rows, func(r SegmentStats) bool { return r.Segment.Index == s.Baseline.Segment })
	if a < 0 && len(rows) > 0 {
		a = 0
	}
	if a >= 0 {
		rows[a].Baseline = true
	}
	xs := experiments(s, h)
	pooled := repeat(h, rows, a)
	for i := range rows {
		switch {
		case i == a || a < 0:
		case rows[i].group(i) == rows[a].group(a): // the row has A's settings, and is not compared with itself
			rows[i].VsA = Compare(rows, &rows[a], &rows[i])
		default:
			rows[i].VsA = stays(rows, &rows[a], &rows[i], stats.Compare(pooled[a], pooled[i], h, stats.DefaultMargin))
		}
		if i != a && a >= 0 {
			rows[i].VsA = byTurns(xs, &rows[a], &rows[i], rows[i].VsA)
		}
		if i > 0 {
			rows[i].VsBefore = Between(xs, rows, &rows[i-1], &rows[i])
		}
	}
	return rows
}

// group returns the first row with the settings of s, which is row i.
func (s *SegmentStats) group(i int) int {
	if s.Repeats >= 0 {
		return s.Repeats
	}
	return i
}

// StretchOf sums up the steady steps of a segment for comparisons.
func StretchOf(t *trace.Tally) stats.Stretch { return stats.Measure(series(t)) }

// series returns the steady steps of a segment. Where samples are not counted, a step counts as
// one.
func series(t *trace.Tally) stats.Series {
	list := t.Blocks.List()
	blocks := make([]stats.Block, len(list))
	for i := range list {
		b := &list[i]
		samples := b.Samples
		if t.Steady.Samples == 0 {
			samples = b.Steps
		}
		blocks[i] = stats.Block{Steps: int(b.Steps), Samples: samples, Active: b.Active, Busy: b.Busy, Squares: b.Squares}
	}
	return stats.Series{Start: t.From, Blocks: blocks}
}
