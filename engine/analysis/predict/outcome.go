package predict

import (
	"slices"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Outcome compares a prediction that was made when knobs were changed with what was
// measured after.
type Outcome struct {
	Row       int    // of attribution.Segments: the segment that the change began
	Change    string // in words
	Predicted trace.Prediction
	Measured  units.Estimate // throughput, as a ratio to Predicted.Base; where nothing was predicted or an A/B test was made, to the segment before
	Inside    bool           // Measured lies in the predicted interval, and that is narrow enough to tell something
}

// Outcomes returns the outcomes of the changes that were measured for long enough, in order. A
// change without a prediction has an empty one. The changes that experiments made, and how they
// ended, are left out.
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
			if r.VsBefore.Pairs == 0 { // an A/B test outranks the row's own rate
				o.Measured = measured(r, p.Base)
			}
			g := Gain(*p)
			o.Inside = !Vague(*p) && o.Measured.Value >= g.Lo && o.Measured.Value <= g.Hi
		}
		out = append(out, o)
	}
	return out
}

func inExperiment(s *trace.Snapshot, segment int32) bool {
	return trace.ExperimentOf(s.Experiments, segment) != nil
}

// measured returns the rate of a row against base, with the interval of the row's own mean.
func measured(r *attribution.SegmentStats, base float64) units.Estimate {
	e := units.Rough(r.SamplesPerSecond / base)
	c := &r.VsBefore.Throughput
	if c.Answer == stats.Unknown && c.Hi <= 0 || c.Ratio <= 0 {
		return e
	}
	e.Lo, e.Hi = e.Value*c.Lo/c.Ratio, e.Value*c.Hi/c.Ratio
	return e
}

// Score is how often predictions were right, and how much they said.
type Score struct {
	Inside, Of int       // outcomes inside the interval, and outcomes of which something was predicted
	Untold     int       // outcomes without a prediction, or with one too wide to tell anything
	HalfWidths []float64 // half of each interval's width, as a ratio to its middle, in order of size
}

// HalfWidth returns the median of the half-widths; 0 of none.
func (s *Score) HalfWidth() float64 {
	if s.Of == 0 {
		return 0
	}
	return s.HalfWidths[s.Of/2]
}

// ScoreOf scores the outcomes that had a prediction.
func ScoreOf(outcomes []Outcome) Score {
	var s Score
	for i := range outcomes {
		o := &outcomes[i]
		if !o.Predicted.Made() || Vague(o.Predicted) {
			s.Untold++
			continue
		}
		s.Of++
		s.HalfWidths = append(s.HalfWidths, (o.Predicted.Hi-o.Predicted.Lo)/(o.Predicted.Hi+o.Predicted.Lo))
		if o.Inside {
			s.Inside++
		}
	}
	slices.Sort(s.HalfWidths)
	return s
}
