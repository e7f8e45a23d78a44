// Package attribution charges every idle nanosecond of the compute stream to one cause,
// and judges what that means. It is pure: spans and steps go in, numbers come out.
//
// # Attribution
//
// The run is tiled into windows, one a step: from the end of the previous step's
// compute to the end of the step's own. The time before the first compute belongs to
// the first window. The time after the last belongs to no step. In a window the compute
// stream is busy where a KindCompute span covers the instant (the union: spans may
// overlap or abut). Every other instant has exactly one cause, the first that applies:
//
//   - paused: a KindPause span covers it. It is not the machine's fault, and every
//     share leaves it out of the wall time.
//   - sampler: a KindSampler span covers it, in which the step loop draws the indices of
//     a batch. It is a wait for data, too.
//   - data: a KindNext span covers it, in which the step loop waits for a batch. Its
//     sub-causes are listed below.
//   - host: a KindStarved span covers it. The step loop, or the thread of a stream that
//     runs on the host, was ready to run and had no core. A ready batch wakes the step
//     loop. If the loop wakes late, the time until then is host and not data.
//   - copy: this step's host-to-device copy is in progress.
//   - launch: a KindEnqueue span covers it.
//   - sync: a KindSync span covers it.
//   - transition: a KindTransition or KindRebuild span covers it.
//   - copy, again: this step's copy is enqueued but has not begun.
//   - launch, again: the step is enqueued and its batch copied, but its compute has not
//     begun. This counts for at most 100 us, which the device takes to begin.
//   - transition, again: the step is flagged as part of a transition.
//   - unknown: the rest.
//
// A wait for data has exactly one sub-cause, the first that applies:
//
//   - dataloader: no batch is named, because the loop was in a loader that tells no
//     more.
//   - order: in_order made the loop wait for this batch while other batches of the
//     epoch were ready. The last sample of the ready queue up to the instant says so.
//   - workers: no span of the batch was recorded.
//   - the phase that the batch's worker had entered last. A phase counts until the next
//     one begins, and the last phase until the batch is handed over. With loading
//     inline, the first phase also counts for the time before it.
//   - startup: a KindStart span of the worker covers the instant before its first phase.
//     Or the worker did not exist yet, or it was parked. Or it was out of work until an
//     epoch or a knob change gave it some.
//   - prefetch: the worker was blocked on the prefetch limit or on a slot.
//   - workers: the rest.
//
// Spans of later steps explain nothing: the device does not wait for step 7 because the
// host already asks for batch 8. A span whose Step is -1 may explain any window that it
// overlaps.
package attribution

import "dev.gpustall/engine/trace"

// Stall is an interval in which the compute stream was idle for one cause.
type Stall struct {
	Start, End int64 // ns
	Step       int32 // the step that was waited for; -1 after the last one
	Cause      trace.Cause
}

// Timeline is the account of an interval: Wall = Busy + the length of all Stalls, exactly. Paused
// is the part of Wall that was spent paused.
type Timeline struct {
	Steps              []trace.Step
	Stalls             []Stall // in order of time
	Wall, Busy, Paused int64   // ns
}

// Attribute accounts for [from, to]. Steps come in the order of Index and need only what the engine
// knows of them. Their windows are clipped to the interval. Spans may come in any order.
func Attribute(spans []trace.Span, steps []trace.Step, from, to int64) Timeline {
	to = max(from, to)
	a := newAnalyzer(from, to)
	var t Timeline
	t.Wall = to - from
	done, stalls := a.Feed(spans, steps)
	for i := range done {
		t.Busy += done[i].Busy
	}
	t.Steps = append(t.Steps, done...)
	t.add(stalls)
	stalls = a.Finish(to)
	t.Busy += a.tailBusy
	t.add(stalls)
	return t
}

func (t *Timeline) add(stalls []trace.Span) {
	for _, s := range stalls {
		c := trace.Cause(s.Arg)
		t.Stalls = append(t.Stalls, Stall{s.Start, s.End, s.Step, c})
		if c == trace.CausePaused {
			t.Paused += s.End - s.Start
		}
	}
}
