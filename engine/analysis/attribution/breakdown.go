package attribution

import (
	"math"

	"dev.gpustall/engine/trace"
)

// Breakdown says where the time of some steps went. Shares and rates leave out pauses.
type Breakdown struct{ trace.Totals }

// Sum adds up steps that follow each other.
func Sum(steps []trace.Step) Breakdown {
	var b Breakdown
	b.AddAll(steps)
	return b
}

// Whole adds up a session: its steps and, once it has ended, the time after the last step. That
// time counts as far as the snapshot's stall spans explain it.
func Whole(s *trace.Snapshot) Breakdown {
	b := Breakdown{s.Total}
	from := s.Last.End
	if s.Outcome.Ended <= from {
		return b
	}
	rest := s.Outcome.Ended - from
	b.Wall += rest
	for i := range s.Spans {
		sp := &s.Spans[i]
		if sp.Kind != trace.KindStall || sp.Step >= 0 || int(sp.Arg) >= trace.NumCauses {
			continue
		}
		if d := min(sp.End, s.Outcome.Ended) - max(sp.Start, from); d > 0 && d <= rest {
			b.Stall[sp.Arg] += d
			rest -= d
			if trace.Cause(sp.Arg) == trace.CausePaused {
				b.Paused += d
			}
		}
	}
	b.Stall[trace.CauseUnknown] += rest
	return b
}

// Of returns ns as a share of the active time, 0 to 1.
func (b Breakdown) Of(ns int64) float64 {
	if b.Active() <= 0 {
		return 0
	}
	return float64(ns) / float64(b.Active())
}

// Utilisation returns the share of the active time, 0 to 1, in which the compute stream
// was busy.
func (b Breakdown) Utilisation() float64 { return b.Of(b.Busy) }

// Share returns the share of the active time, 0 to 1, lost to a cause. CausePaused has
// none.
func (b Breakdown) Share(c trace.Cause) float64 {
	if int(c) >= trace.NumCauses || c == trace.CausePaused {
		return 0
	}
	return b.Of(b.Stall[c])
}

// DataShare returns the share lost to all sub-causes of data.
func (b Breakdown) DataShare() float64 { return b.Of(b.Data()) }

// Data returns the time lost to all sub-causes of data, in ns.
func (b Breakdown) Data() int64 { return data(&b.Stall) }

// data adds up the sub-causes of data, in ns.
func data(stall *[trace.NumCauses]int64) (ns int64) {
	for c := range trace.Cause(trace.NumCauses) {
		if c.IsData() {
			ns += stall[c]
		}
	}
	return ns
}

// SamplesPerSecond returns the rate over the active time. It is 0 when there was none, and NaN
// where the samples of the steps are not counted.
func (b Breakdown) SamplesPerSecond() float64 {
	if b.Samples == 0 && b.Steps > 0 {
		return math.NaN()
	}
	return b.Of(b.Samples) * 1e9
}

// AU is MLPerf Storage's accelerator utilisation, total compute time over total
// run time, 0 to 1, with the first step left out. AU returns false for fewer than two
// steps.
func AU(s *trace.Snapshot) (float64, bool) {
	active := s.Total.Active() - s.First.Active()
	if s.Total.Steps < 2 || active <= 0 {
		return 0, false
	}
	return float64(s.Total.Busy-s.First.Busy) / float64(active), true
}
