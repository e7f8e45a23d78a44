package predict

import (
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Outcome is what came of a prediction that was made when knobs were changed.
type Outcome struct {
	Row       int    // of attribution.Segments: the segment that the change began
	Change    string // in words
	Predicted trace.Prediction
	Measured  units.Estimate // throughput, as a ratio to Predicted.Base or, where nothing was predicted, to the segment before
	Inside    bool           // what was measured lies in the predicted interval
}

// Outcomes returns those of the changes that were measured for long enough, in order. A change
// without a prediction has an empty one. What an experiment changed for a while, and how it ended,
// is left out.
func Outcomes(s *trace.Snapshot, rows []attribution.SegmentStats) []Outcome {
	var out []Outcome
	for i := 1; i < len(rows); i++ {
		r := &rows[i]
		// Rows leave out the segments of experiments, so the segment before is not always the row
		// before.
		if r.Steps < least || r.SamplesPerSecond <= 0 || inExperiment(s, r.Segment.Index) || inExperiment(s, r.Segment.Index-1) {
			continue
		}
		o := Outcome{Row: i, Change: r.Segment.Reason, Predicted: r.Segment.Predicted, Measured: r.VsBefore.Throughput.Estimate()}
		if p := &o.Predicted; p.Made() {
			o.Measured = measured(r, p.Base)
			o.Inside = r.SamplesPerSecond >= p.Lo && r.SamplesPerSecond <= p.Hi
		}
		out = append(out, o)
	}
	return out
}

func inExperiment(s *trace.Snapshot, segment int32) bool {
	return trace.ExperimentOf(s.Experiments, segment) != nil
}

// measured is the rate of a row against base, with the interval of the row's own mean.
func measured(r *attribution.SegmentStats, base float64) units.Estimate {
	e := units.Rough(r.SamplesPerSecond / base)
	c := &r.VsBefore.Throughput
	if c.Answer == stats.Unknown && c.Hi <= 0 || c.Ratio <= 0 {
		return e
	}
	e.Lo, e.Hi = e.Value*c.Lo/c.Ratio, e.Value*c.Hi/c.Ratio
	return e
}

// Score counts the outcomes that fell inside the predicted interval, and all that had a prediction.
func Score(outcomes []Outcome) (inside, of int) {
	for i := range outcomes {
		if outcomes[i].Inside {
			inside++
		}
	}
	return inside, len(outcomes)
}
