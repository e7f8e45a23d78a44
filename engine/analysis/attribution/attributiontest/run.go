// Package attributiontest makes training runs whose truth is known. Tests of attribution and of its
// users start from these.
package attributiontest

import (
	"fmt"
	"slices"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// Msec is a millisecond in ns.
const Msec = int64(1e6)

// Run is a deterministic run on a virtual clock. Workers build batches; the step loop takes them in
// order, copies and enqueues; the device copies and computes. Times are ns.
type Run struct {
	Workers, Prefetch int
	Slots             int   // batch slots; 0: plenty
	Lag               int64 // from the end of a step's compute until its slot is free
	Steps, Epoch      int   // steps in all and per epoch
	Start             int64
	Restart           bool // workers end with the epoch and start again
	Read, Decode      int64
	Transform         int64
	Collate           int64
	Straggler         int // 1-based worker whose transform takes delay longer
	Delay             int64
	Jitter            func(batch int) int64 // added to the transform
	Late              int64                 // how long after its batch is ready the step loop wakes
	Enqueue, Copy     int64
	Compute           int64
	Sync              int64 // if positive, the host waits for each step, and so many ns more
	PauseAt           int   // step before which the run is paused for pause
	Pause             int64
	ChangeAt          int // step before which num_workers becomes changeTo, after rebuild
	ChangeTo          int
	Rebuild           int64
	Flags             uint16
}

// Entry is a span or a step at the moment it is recorded.
type Entry struct {
	at   int64
	seq  int
	Span trace.Span
	Step *trace.Step
}

// running is a run under way.
type running struct {
	Run
	log      []Entry
	segments []trace.Segment

	free    []int64 // when each worker is free
	built   []int64 // when each batch was ready
	deliver []int64 // when each batch was returned by Next
	epochAt int64
	ends    []int64 // when each step's compute ended

	host, copying, computing int64 // when the step loop, the copies and the device are free
	announced                int   // steps recorded so far
}

func (r *running) rec(at int64, s trace.Span) {
	if s.End > s.Start {
		r.log = append(r.log, Entry{at: at, seq: len(r.log), Span: s})
	}
}

// track records a span of the step loop.
func (r *running) track(k trace.Kind, step int, from, to int64) {
	r.rec(to, trace.Span{Start: from, End: to, Step: int32(step), Batch: int32(step), Kind: k, Track: trace.TrackStep})
}

// Log returns what was recorded, in that order.
func (s Run) Log() ([]Entry, []trace.Segment, int64) {
	r := &running{Run: s}
	if r.Epoch == 0 {
		r.Epoch = r.Steps
	}
	r.grow(r.Workers, 0)
	r.segments = []trace.Segment{{Index: 0, Knobs: r.knobs(), Reason: "start"}}
	for i := range r.Steps {
		r.before(i)
		r.step(i)
	}
	r.drain()
	r.queue()
	slices.SortStableFunc(r.log, func(a, b Entry) int {
		switch {
		case a.at != b.at:
			return int(a.at - b.at)
		case (a.Step != nil) != (b.Step != nil): // a step comes after its spans
			if a.Step != nil {
				return 1
			}
			return -1
		}
		return a.seq - b.seq
	})
	return r.log, r.segments, r.host
}

// before does what happens before step i: a pause, a change, the start of an epoch.
func (r *running) before(i int) {
	if r.Pause > 0 && i == r.PauseAt {
		r.drain()
		r.track(trace.KindPause, i, r.host, r.host+r.Pause)
		r.host += r.Pause
	}
	if r.ChangeAt > 0 && i == r.ChangeAt {
		r.drain()
		r.track(trace.KindRebuild, i, r.host, r.host+r.Rebuild)
		r.host += r.Rebuild
		r.Workers = r.ChangeTo
		r.grow(r.Workers, r.host)
		r.segments[0].End = r.host
		r.segments = append(r.segments, trace.Segment{Index: 1, Start: r.host, FirstStep: int32(i), Knobs: r.knobs(), Reason: "num_workers"})
	}
	if i%r.Epoch == 0 {
		r.epochAt = r.host
		if r.Restart && i > 0 {
			r.free = r.free[:0]
			r.grow(r.Workers, r.host)
		}
	}
}

// step takes batch i, copies it and computes on it.
func (r *running) step(i int) {
	ready := r.build(i, r.host)
	next := max(r.host, ready)
	r.built = append(r.built, ready)
	r.track(trace.KindNext, i, r.host, next)
	if r.Late > 0 && ready > r.host {
		r.track(trace.KindStarved, i, next, next+r.Late)
		next += r.Late
	}
	r.deliver = append(r.deliver, next)
	sent := next + r.Enqueue
	r.track(trace.KindEnqueue, i, next, sent)
	copyStart := max(next, r.copying)
	r.copying = copyStart + r.Copy
	computeStart := max(sent, r.copying, r.computing)
	r.computing = computeStart + r.Compute
	r.ends = append(r.ends, r.computing)
	r.rec(r.computing, trace.Span{Start: copyStart, End: r.copying, Step: int32(i), Batch: int32(i), Kind: trace.KindCopy, Track: trace.TrackCopy, Arg: 64})
	r.rec(r.computing, trace.Span{Start: computeStart, End: r.computing, Step: int32(i), Batch: int32(i), Kind: trace.KindCompute, Track: trace.TrackCompute})
	r.host = sent
	switch {
	case r.Sync > 0:
		r.host = max(r.host, r.computing) + r.Sync
		r.track(trace.KindSync, i, sent, r.host)
	case i >= 2 && r.ends[i-2] > r.host: // three steps in flight
		r.host = r.ends[i-2]
		r.track(trace.KindSync, i+1, sent, r.host)
	}
	r.announce()
}

// drain makes the step loop wait for the device.
func (r *running) drain() {
	r.host = max(r.host, r.computing)
	r.announce()
}

// announce records the steps that have ended by now.
func (r *running) announce() {
	for ; r.announced < len(r.ends) && r.ends[r.announced] <= r.host; r.announced++ {
		i := r.announced
		st := trace.Step{
			Index: int32(i), Batch: int32(i), Epoch: int32(i / r.Epoch), Samples: 32, Correct: -1, Flags: r.Flags,
		}
		if r.ChangeAt > 0 && i >= r.ChangeAt {
			st.Segment = 1
			if i < r.ChangeAt+r.ChangeTo*r.Prefetch {
				st.Flags |= trace.FlagTransition
			}
		}
		if i%r.Epoch == 0 {
			st.Flags |= trace.FlagFirstOfEpoch
		}
		if i%r.Epoch == r.Epoch-1 {
			st.Flags |= trace.FlagLastOfEpoch
		}
		r.log = append(r.log, Entry{at: r.host, seq: len(r.log), Step: &st})
	}
}

// queue records the ready queue at each instant at which it changed.
func (r *running) queue() {
	if r.Workers == 0 {
		return
	}
	at := slices.Concat(r.built, r.deliver)
	slices.Sort(at)
	head := 0 // the first batch that is not delivered
	for _, t := range slices.Compact(at) {
		for head < len(r.deliver) && r.deliver[head] <= t {
			head++
		}
		ready, others := 0, false
		for i := head; i < min(len(r.built), head+r.Workers*r.Prefetch); i++ {
			if r.built[i] <= t {
				ready++
				others = others || i/r.Epoch == head/r.Epoch
			}
		}
		held := int32(-1)
		if others && r.built[head] > t {
			held = int32(head)
		}
		r.log = append(r.log, Entry{at: t, seq: len(r.log), Span: trace.Span{
			Start: t, End: t, Step: -1, Batch: held, Kind: trace.KindQueue, Track: trace.TrackQueue,
			Arg: uint32(ready), Flags: uint16(r.Workers * r.Prefetch),
		}})
	}
}

// grow starts workers up to n at time t.
func (r *running) grow(n int, t int64) {
	for i := len(r.free); i < n; i++ {
		r.rec(t+r.Start, trace.Span{Start: t, End: t + r.Start, Step: -1, Batch: -1, Kind: trace.KindStart, Track: trace.Worker(i)})
		r.free = append(r.free, t+r.Start)
	}
}

// build makes batch i and returns when it is ready; asked is when the step loop
// asked for it.
func (r *running) build(i int, asked int64) int64 {
	phases := []struct {
		k trace.Kind
		d int64
	}{{trace.KindRead, r.Read}, {trace.KindDecode, r.Decode}, {trace.KindTransform, r.Transform}, {trace.KindCollate, r.Collate}}
	if r.Jitter != nil {
		phases[2].d += r.Jitter(i)
	}
	track, t := trace.TrackInline, asked
	if r.Workers > 0 {
		w := 0
		for j := range r.Workers {
			if r.free[j] < r.free[w] {
				w = j
			}
		}
		track = trace.Worker(w)
		allowed, why := int64(0), trace.BlockPrefetch
		if limit := r.Workers * r.Prefetch; i >= limit {
			allowed = r.deliver[i-limit]
		}
		if r.Slots > 0 && i >= r.Slots && r.ends[i-r.Slots]+r.Lag > allowed {
			allowed, why = r.ends[i-r.Slots]+r.Lag, trace.BlockSlot
		}
		if i/r.Epoch*r.Epoch > i-r.Workers*r.Prefetch && r.epochAt > allowed { // no loading ahead across epochs
			allowed, why = r.epochAt, trace.BlockIdle
		}
		t = r.free[w]
		if allowed > t {
			r.rec(allowed, trace.Span{Start: t, End: allowed, Step: -1, Batch: -1, Kind: trace.KindBlocked, Track: track, Arg: uint32(why)})
			t = allowed
		}
		if w+1 == r.Straggler {
			phases[2].d += r.Delay
		}
	}
	for _, p := range phases {
		r.rec(t+p.d, trace.Span{Start: t, End: t + p.d, Step: -1, Batch: int32(i), Kind: p.k, Track: track, Flags: r.Flags})
		t += p.d
	}
	if r.Workers > 0 {
		r.free[int(track-trace.TrackWorker0)] = t
	}
	return t
}

func (r *running) knobs() []knob.Setting {
	return []knob.Setting{
		{Name: "num_workers", Value: fmt.Sprint(r.Workers)}, {Name: "prefetch_factor", Value: fmt.Sprint(r.Prefetch)},
		{Name: "pin_memory", Value: "off"}, {Name: "persistent_workers", Value: map[bool]string{true: "off", false: "on"}[r.Restart]},
		{Name: "in_order", Value: "on"}, {Name: "batch_size", Value: "32"}, {Name: "capture", Value: "off"},
		{Name: "device_transforms", Value: "off"},
	}
}

// Split separates spans from steps.
func Split(log []Entry) (spans []trace.Span, steps []trace.Step) {
	for _, l := range log {
		if l.Step != nil {
			steps = append(steps, *l.Step)
		} else {
			spans = append(spans, l.Span)
		}
	}
	return spans, steps
}

// Snapshot returns the session of the run. attribute accounts for its steps, as
// attribution.Attribute does.
func (s Run) Snapshot(attribute func(spans []trace.Span, steps []trace.Step, end int64) []trace.Step) *trace.Snapshot {
	log, segments, end := s.Log()
	spans, steps := Split(log)
	steps = attribute(spans, steps, end)
	return &trace.Snapshot{
		Now: end, Recent: steps, Digest: *trace.Digested(steps), Spans: spans, Segments: segments,
		Meta: trace.Meta{
			Samples: int64(32 * max(s.Epoch, 1)),
			Host:    []knob.Setting{{Name: "threads", Value: "8"}},
		},
	}
}

// Chunk is what a collector drains at one time.
type Chunk struct {
	Spans []trace.Span
	Steps []trace.Step
}

// Chunks replays a log as a collector would see it: everything recorded up to
// some moment, except that the steps may end a little earlier.
func Chunks(log []Entry, cut func(remaining int) (steps, spans int)) (out []Chunk) {
	stepsAt, spansAt := 0, 0
	for spansAt < len(log) {
		n, m := cut(len(log) - spansAt)
		m = max(1, m)
		toSpans := min(len(log), spansAt+m)
		toSteps := min(toSpans, max(stepsAt, spansAt+n))
		if toSpans == len(log) {
			toSteps = len(log)
		}
		var c Chunk
		for _, l := range log[spansAt:toSpans] {
			if l.Step == nil {
				c.Spans = append(c.Spans, l.Span)
			}
		}
		for _, l := range log[stepsAt:toSteps] {
			if l.Step != nil {
				c.Steps = append(c.Steps, *l.Step)
			}
		}
		stepsAt, spansAt = toSteps, toSpans
		out = append(out, c)
	}
	return out
}

// Shred cuts every phase of a worker into n.
func Shred(log []Entry, n int64) []Entry {
	var out []Entry
	for _, l := range log {
		if l.Step != nil || !l.Span.Track.IsWorker() || l.Span.Kind > trace.KindCollate || l.Span.End-l.Span.Start < n {
			out = append(out, l)
			continue
		}
		d := (l.Span.End - l.Span.Start) / n
		for i := range n {
			p := l
			p.Span.Start = l.Span.Start + i*d
			if i < n-1 {
				p.Span.End = p.Span.Start + d
			}
			out = append(out, p)
		}
	}
	return out
}
