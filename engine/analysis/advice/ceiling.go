package advice

import (
	"slices"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/trace"
)

// Ceiling is how much faster a run could be if its loader never kept the device waiting. It
// compares the rate with cached batches to the rate of the settings judged.
type Ceiling struct {
	Segment int32        // of the cached batches
	Again   bool         // the experiment's own text says the same
	Change  stats.Change // of throughput, from the settings judged to cached batches
	Text    string       // in a sentence; empty where nobody asked
}

// bounded reports whether a change has an answer, or at least bounds.
func bounded(c *stats.Change) bool {
	return c.Answer != stats.Unknown || c.Missing.What == stats.Precision && c.Hi > 1
}

// ceiling returns what the newest experiment with cached batches says about a segment's settings.
// The rate of that experiment holds for all settings with which the device does the same work.
func ceiling(s *trace.Snapshot, rows []attribution.SegmentStats, xs []attribution.Experiment, segment int32) Ceiling {
	now := slices.IndexFunc(s.Segments, func(g trace.Segment) bool { return g.Index == segment })
	for i := len(xs) - 1; i >= 0 && now >= 0; i-- {
		x := &xs[i]
		if x.Kind != trace.Ceiling || !bounded(&x.Change.Throughput) || len(x.Settings[0]) == 0 || !SameWork(s.Meta.Specs, x.Settings[0], s.Segments[now].Knobs) {
			continue
		}
		c := Ceiling{Segment: x.First, Again: true, Change: x.Change.Throughput}
		if r := slices.IndexFunc(rows, func(r attribution.SegmentStats) bool { return r.Segment.Index == segment }); r >= 0 && rows[r].Segment.Index != x.First-1 && !slices.Equal(rows[r].Segment.Knobs, x.Settings[0]) {
			since := attribution.AgainstTally(rows, &rows[r], s.Tally(x.First)).Throughput
			if !bounded(&since) {
				continue
			}
			c.Again, c.Change = false, since
		}
		c.Text = attribution.AtMost(&c.Change)
		return c
	}
	return Ceiling{}
}
