package stall

import "dev.gpustall/engine/trace"

// Breakdown sums steps: Wall = Busy + all of Stall, in ns. Shares and rates leave
// out the time in which the user paused the engine.
type Breakdown struct {
	Wall, Busy, Paused int64
	Stall              [trace.NumCauses]int64
	Steps              int
	Samples            int64
	Wait               int64 // the step loop blocked in Loader.Next (data wait)
	Load               int64 // worker time spent on the batches (data loading time)
	Copy               int64 // host-to-device copies, hidden or not
	Bytes              int64 // copied to the device
}

// Sum adds steps up.
func Sum(steps []trace.Step) Breakdown {
	var b Breakdown
	for i := range steps {
		b.add(&steps[i])
	}
	return b
}

func (b *Breakdown) add(s *trace.Step) {
	b.Wall += s.End - s.Start
	b.Busy += s.Busy
	for c, ns := range s.Stall {
		b.Stall[c] += ns
	}
	b.Paused += s.Stall[trace.CausePaused]
	b.Steps++
	b.Samples += int64(s.Samples)
	b.Wait += s.Wait
	b.Load += s.Load
	b.Copy += s.Copy
	b.Bytes += s.Bytes
}

// Whole sums a session: its steps, and, once it has ended, the time after the
// last one as far as the snapshot's stall spans explain it.
func Whole(s *trace.Snapshot) Breakdown {
	b := Sum(s.Steps)
	var from int64
	if n := len(s.Steps); n > 0 {
		from = s.Steps[n-1].End
	}
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

// Active is the wall time less the pauses, in ns.
func (b Breakdown) Active() int64 { return b.Wall - b.Paused }

func (b Breakdown) ratio(ns int64) float64 {
	if b.Active() <= 0 {
		return 0
	}
	return float64(ns) / float64(b.Active())
}

// Utilisation is the share of the active time, 0 to 1, in which the compute stream
// was busy.
func (b Breakdown) Utilisation() float64 { return b.ratio(b.Busy) }

// Share is the share of the active time, 0 to 1, lost to a cause. CausePaused has
// none.
func (b Breakdown) Share(c trace.Cause) float64 {
	if int(c) >= trace.NumCauses || c == trace.CausePaused {
		return 0
	}
	return b.ratio(b.Stall[c])
}

// DataShare is the share lost to all sub-causes of data.
func (b Breakdown) DataShare() float64 { return b.ratio(b.Data()) }

// Data is the time lost to all sub-causes of data, in ns.
func (b Breakdown) Data() int64 {
	var ns int64
	for c := range trace.NumCauses {
		if trace.Cause(c).IsData() {
			ns += b.Stall[c]
		}
	}
	return ns
}

// SamplesPerSecond is the rate over the active time; 0 when there was none.
func (b Breakdown) SamplesPerSecond() float64 { return b.ratio(b.Samples) * 1e9 }

// AU is MLPerf Storage's accelerator utilisation, total compute time over total
// run time, 0 to 1, with the first step left out. It is false for fewer than two
// steps.
func AU(steps []trace.Step) (float64, bool) {
	if len(steps) < 2 {
		return 0, false
	}
	b := Sum(steps[1:])
	return b.Utilisation(), b.Active() > 0
}
