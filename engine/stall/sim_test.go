package stall

import (
	"fmt"
	"slices"

	"dev.gpustall/engine/trace"
)

const msec = int64(1e6)

// sim is a deterministic run on a virtual clock: workers build batches, the step
// loop takes them in order, copies and enqueues, the device copies and computes.
// Times are ns.
type sim struct {
	workers, prefetch int
	slots             int   // batch slots; 0: plenty
	lag               int64 // after its step's compute a slot is free again
	steps, epoch      int   // steps in all and per epoch
	start             int64
	restart           bool // workers end with the epoch and start again
	read, decode      int64
	transform         int64
	collate           int64
	straggler         int // 1-based worker whose transform takes delay longer
	delay             int64
	jitter            func(batch int) int64 // added to the transform
	enqueue, copy     int64
	compute           int64
	sync              int64 // > 0: the host waits for each step, and this long after it
	pauseAt           int   // step before which the run is paused for pause
	pause             int64
	changeAt          int // step before which num_workers becomes changeTo, after rebuild
	changeTo          int
	rebuild           int64
	flags             uint16
}

// logged is a span or a step at the moment it is recorded.
type logged struct {
	at   int64
	seq  int
	span trace.Span
	step *trace.Step
}

type simRun struct {
	sim
	log     []logged
	free    []int64 // when each worker is free
	born    []bool
	deliver []int64 // when each batch was returned by Next
	epochAt int64
	ends    []int64
}

func (r *simRun) rec(at int64, s trace.Span) {
	if s.End > s.Start {
		r.log = append(r.log, logged{at: at, seq: len(r.log), span: s})
	}
}

// run returns what was recorded, in the order in which it was.
func (s sim) run() ([]logged, []trace.Segment, int64) {
	r := &simRun{sim: s}
	if r.epoch == 0 {
		r.epoch = r.steps
	}
	r.grow(r.workers, 0)
	segments := []trace.Segment{{Index: 0, Knobs: r.knobs(), Reason: "start"}}
	host, copyFree, computeFree := int64(0), int64(0), int64(0)
	track := func(k trace.Kind, step int, from, to int64) {
		r.rec(to, trace.Span{Start: from, End: to, Step: int32(step), Batch: int32(step), Kind: k, Track: trace.TrackStep})
	}
	announced := 0
	announce := func(now int64) {
		for ; announced < len(r.ends) && r.ends[announced] <= now; announced++ {
			i := announced
			st := trace.Step{
				Index: int32(i), Batch: int32(i), Epoch: int32(i / r.epoch), Samples: 32, Correct: -1, Flags: r.flags,
			}
			if r.changeAt > 0 && i >= r.changeAt {
				st.Segment = 1
				if i < r.changeAt+r.changeTo*r.prefetch {
					st.Flags |= trace.FlagTransition
				}
			}
			if i%r.epoch == 0 {
				st.Flags |= trace.FlagFirstOfEpoch
			}
			if i%r.epoch == r.epoch-1 {
				st.Flags |= trace.FlagLastOfEpoch
			}
			r.log = append(r.log, logged{at: now, seq: len(r.log), step: &st})
		}
	}
	device := func(i int, c0, c1, d0, d1 int64) {
		r.rec(d1, trace.Span{Start: c0, End: c1, Step: int32(i), Batch: int32(i), Kind: trace.KindCopy, Track: trace.TrackCopy, Arg: 64})
		r.rec(d1, trace.Span{Start: d0, End: d1, Step: int32(i), Batch: int32(i), Kind: trace.KindCompute, Track: trace.TrackCompute})
	}
	for i := range r.steps {
		if r.pause > 0 && i == r.pauseAt {
			host = max(host, computeFree)
			announce(host)
			track(trace.KindPause, i, host, host+r.pause)
			host += r.pause
		}
		if r.changeAt > 0 && i == r.changeAt {
			host = max(host, computeFree)
			announce(host)
			track(trace.KindRebuild, i, host, host+r.rebuild)
			host += r.rebuild
			r.workers = r.changeTo
			r.grow(r.workers, host)
			segments[0].End = host
			segments = append(segments, trace.Segment{Index: 1, Start: host, FirstStep: int32(i), Knobs: r.knobs(), Reason: "num_workers"})
		}
		if i%r.epoch == 0 {
			r.epochAt = host
			if r.restart && i > 0 {
				r.free, r.born = r.free[:0], nil
				r.grow(r.workers, host)
			}
		}
		ready := r.build(i, host)
		next := max(host, ready)
		track(trace.KindNext, i, host, next)
		r.deliver = append(r.deliver, next)
		sent := next + r.enqueue
		track(trace.KindEnqueue, i, next, sent)
		c0 := max(next, copyFree)
		c1 := c0 + r.copy
		d0 := max(sent, c1, computeFree)
		d1 := d0 + r.compute
		copyFree, computeFree = c1, d1
		r.ends = append(r.ends, d1)
		device(i, c0, c1, d0, d1)
		host = sent
		switch {
		case r.sync > 0:
			host = max(host, d1) + r.sync
			track(trace.KindSync, i, sent, host)
		case i >= 2 && r.ends[i-2] > host: // three steps in flight
			host = r.ends[i-2]
			track(trace.KindSync, i+1, sent, host)
		}
		announce(host)
	}
	host = max(host, computeFree)
	announce(host)
	slices.SortStableFunc(r.log, func(a, b logged) int {
		switch {
		case a.at != b.at:
			return int(a.at - b.at)
		case (a.step != nil) != (b.step != nil): // a step comes after its spans
			if a.step != nil {
				return 1
			}
			return -1
		}
		return a.seq - b.seq
	})
	return r.log, segments, host
}

// grow starts workers up to n at time t.
func (r *simRun) grow(n int, t int64) {
	for i := len(r.free); i < n; i++ {
		r.rec(t+r.start, trace.Span{Start: t, End: t + r.start, Step: -1, Batch: -1, Kind: trace.KindStart, Track: trace.Worker(i)})
		r.free = append(r.free, t+r.start)
	}
}

// build makes batch i and returns when it is ready; asked is when the step loop
// asked for it.
func (r *simRun) build(i int, asked int64) int64 {
	phases := []struct {
		k trace.Kind
		d int64
	}{{trace.KindRead, r.read}, {trace.KindDecode, r.decode}, {trace.KindTransform, r.transform}, {trace.KindCollate, r.collate}}
	if r.jitter != nil {
		phases[2].d += r.jitter(i)
	}
	track, t := trace.TrackInline, asked
	if r.workers > 0 {
		w := 0
		for j := range r.workers {
			if r.free[j] < r.free[w] {
				w = j
			}
		}
		track = trace.Worker(w)
		allowed, why := int64(0), trace.BlockPrefetch
		if limit := r.workers * r.prefetch; i >= limit {
			allowed = r.deliver[i-limit]
		}
		if r.slots > 0 && i >= r.slots && r.ends[i-r.slots]+r.lag > allowed {
			allowed, why = r.ends[i-r.slots]+r.lag, trace.BlockSlot
		}
		if i/r.epoch*r.epoch > i-r.workers*r.prefetch && r.epochAt > allowed { // no loading ahead across epochs
			allowed, why = r.epochAt, trace.BlockIdle
		}
		t = r.free[w]
		if allowed > t {
			r.rec(allowed, trace.Span{Start: t, End: allowed, Step: -1, Batch: -1, Kind: trace.KindBlocked, Track: track, Arg: uint32(why)})
			t = allowed
		}
		if w+1 == r.straggler {
			phases[2].d += r.delay
		}
	}
	for _, p := range phases {
		r.rec(t+p.d, trace.Span{Start: t, End: t + p.d, Step: -1, Batch: int32(i), Kind: p.k, Track: track, Flags: r.flags})
		t += p.d
	}
	if r.workers > 0 {
		r.free[int(track-trace.TrackWorker0)] = t
	}
	return t
}

func (r *simRun) knobs() []trace.Knob {
	return []trace.Knob{
		{Name: "num_workers", Value: fmt.Sprint(r.workers)}, {Name: "prefetch_factor", Value: fmt.Sprint(r.prefetch)},
		{Name: "pin_memory", Value: "off"}, {Name: "persistent_workers", Value: map[bool]string{true: "off", false: "on"}[r.restart]},
		{Name: "in_order", Value: "on"}, {Name: "batch_size", Value: "32"}, {Name: "capture", Value: "off"},
		{Name: "device_transforms", Value: "off"},
	}
}

// split separates spans from steps.
func split(log []logged) (spans []trace.Span, steps []trace.Step) {
	for _, l := range log {
		if l.step != nil {
			steps = append(steps, *l.step)
		} else {
			spans = append(spans, l.span)
		}
	}
	return spans, steps
}

// snapshot runs the simulation through Attribute.
func (s sim) snapshot() (*trace.Snapshot, Timeline) {
	log, segments, end := s.run()
	spans, steps := split(log)
	tl := Attribute(spans, steps, 0, end)
	return &trace.Snapshot{
		Now: end, Recent: tl.Steps, Digest: *trace.Digested(tl.Steps), Spans: spans, Segments: segments,
		Meta: trace.Meta{
			Samples: int64(32 * max(s.epoch, 1)),
			Host:    []trace.Knob{{Name: "threads", Value: "8"}},
		},
	}, tl
}

// chunks replays a log as a collector would see it: everything recorded up to
// some moment, except that the steps may end a little earlier.
func chunks(log []logged, cut func(remaining int) (steps, spans int)) (out []struct {
	spans []trace.Span
	steps []trace.Step
}) {
	stepsAt, spansAt := 0, 0
	for spansAt < len(log) {
		n, m := cut(len(log) - spansAt)
		m = max(1, m)
		toSpans := min(len(log), spansAt+m)
		toSteps := min(toSpans, max(stepsAt, spansAt+n))
		if toSpans == len(log) {
			toSteps = len(log)
		}
		var c struct {
			spans []trace.Span
			steps []trace.Step
		}
		for _, l := range log[spansAt:toSpans] {
			if l.step == nil {
				c.spans = append(c.spans, l.span)
			}
		}
		for _, l := range log[stepsAt:toSteps] {
			if l.step != nil {
				c.steps = append(c.steps, *l.step)
			}
		}
		stepsAt, spansAt = toSteps, toSpans
		out = append(out, c)
	}
	return out
}
