package demo

import (
	"math"
	"slices"
	"sort"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// build is one batch: when it is ready and what it took.
type build struct{ ready, samples, load int64 }

// ahead is how far the simulation runs ahead of the time shown, so that workers are seen working on
// batches that the device needs later.
const ahead = 250 * ms

// jitter returns a factor around 1 that depends only on the batch and the phase.
func jitter(batch int32, phase uint64, spread float64) float64 {
	x := uint64(batch)*0x9E3779B97F4A7C15 + phase*0xD1B54A32D192ED03
	x ^= x >> 30
	x *= 0xBF58476D1CE4E5B9
	x ^= x >> 27
	x *= 0x94D049BB133111EB
	x ^= x >> 31
	u := float64(x>>11) / (1 << 53)
	f := 1 + spread*(2*u-1)
	if x%29 == 0 {
		f *= 1 + 2*spread // some batches are slow
	}
	return f
}

func (r *Run) emit(s trace.Span) { r.pending = append(r.pending, s) }

// Advance simulates up to t.
func (r *Run) Advance(t int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.snap.Outcome.Ended != 0 || t <= r.snap.Now {
		return
	}
	for !r.paused && (len(r.compute) == 0 || r.compute[len(r.compute)-1] < t+ahead) {
		r.step()
	}
	r.snap.Now = t
	r.publish(t)
}

// Until simulates up to t ms in steps of 100 ms, as a screen would ask for it.
func (r *Run) Until(t int64) {
	for at := r.Now() + 100*ms; at <= t*ms; at += 100 * ms {
		r.Advance(at)
	}
}

// publish moves what ended before t into the session.
func (r *Run) publish(t int64) {
	keep := r.pending[:0]
	for _, s := range r.pending {
		if s.End <= t {
			r.spans = append(r.spans, s)
		} else {
			keep = append(keep, s)
		}
	}
	r.pending = keep
	if len(r.spans) > 200_000 {
		r.spans = slices.Clone(r.spans[len(r.spans)-100_000:])
	}
	sort.SliceStable(r.spans, func(i, j int) bool { return r.spans[i].Start < r.spans[j].Start })
	if g := r.snap.Gauges["queue_ready"]; t > 0 && (len(g) == 0 || t-g[len(g)-1].T >= 100*ms) {
		ready := 0.0
		for i := len(r.spans) - 1; i >= 0; i-- {
			if r.spans[i].Kind == trace.KindQueue {
				ready = float64(r.spans[i].Arg)
				break
			}
		}
		r.snap.Gauges["queue_ready"] = append(g, trace.Point{T: t, V: ready})
		r.snap.Gauges["queue_cap"] = append(r.snap.Gauges["queue_cap"], trace.Point{T: t, V: float64(r.num("num_workers") * r.num("prefetch_factor"))})
	}
}

// step simulates one step, after the workers have taken as many batches as they may.
func (r *Run) step() {
	capacity := r.num("num_workers") * r.num("prefetch_factor")
	for len(r.built) < len(r.consumed)+max(1, int(capacity)) {
		r.build(int32(len(r.built)))
	}
	r.train(int32(len(r.consumed)), capacity)
}

// build simulates a worker, or the step loop, making batch b.
func (r *Run) build(b int32) {
	workers, pf := r.num("num_workers"), r.num("prefetch_factor")
	samples := r.num("batch_size")
	scale := float64(samples) / 128
	phases := []struct {
		kind trace.Kind
		ns   float64
	}{
		{trace.KindRead, float64(14*ms)*scale*jitter(b, 1, 0.3) + float64(r.dur("inject_read")*samples)},
		{trace.KindDecode, float64(38*ms) * scale * jitter(b, 2, 0.35)},
		{trace.KindTransform, float64(17*ms)*scale*jitter(b, 3, 0.2) + float64(r.dur("inject_cpu")*samples)},
		{trace.KindCollate, float64(5*ms) * scale * jitter(b, 4, 0.2)},
	}
	if knob.On(r.knob("device_transforms")) {
		phases[2].ns *= 0.15
	}
	if knob.On(r.knob("ceiling")) {
		for i := range phases {
			phases[i].ns *= 0.01
		}
	}
	// The worker that is free first takes the batch, as soon as the prefetch limit allows it.
	track, start := trace.TrackInline, r.loop
	if workers > 0 {
		w := 0
		for i := range int(workers) {
			if r.free[i] < r.free[w] {
				w = i
			}
		}
		track, start = trace.Worker(w), r.free[w]
		if k := int(b) - int(workers*pf); k >= 0 && k < len(r.consumed) && r.consumed[k] > start {
			r.emit(trace.Span{Start: start, End: r.consumed[k], Step: -1, Batch: b, Kind: trace.KindBlocked, Track: track, Arg: uint32(trace.BlockPrefetch)})
			start = r.consumed[k]
		}
		if int64(w)+1 == r.num("inject_straggler") {
			phases[3].ns += float64(50 * ms)
		}
	}
	t := start
	var load int64
	for _, p := range phases {
		d := int64(p.ns)
		r.emit(trace.Span{Start: t, End: t + d, Step: b, Batch: b, Kind: p.kind, Track: track})
		t += d
		load += d
	}
	if workers > 0 {
		r.free[track-trace.TrackWorker0] = t
	}
	r.built = append(r.built, build{t, samples, load})
}

// train simulates the step loop and the device for batch b.
func (r *Run) train(b int32, capacity int64) {
	sync := func(s trace.Span) { r.emit(s) }
	ready, samples, load := r.built[b].ready, r.built[b].samples, r.built[b].load
	n := len(r.compute)
	at := r.loop
	if n >= 2 && r.compute[n-2] > at { // at most two steps ahead
		sync(trace.Span{Start: at, End: r.compute[n-2], Step: b, Batch: b, Kind: trace.KindSync, Track: trace.TrackStep})
		at = r.compute[n-2]
	}
	if ready > at {
		sync(trace.Span{Start: at, End: ready, Step: b, Batch: b, Kind: trace.KindNext, Track: trace.TrackStep})
		at = ready
	}
	r.consumed = append(r.consumed, at)
	waiting := uint32(0)
	for _, o := range r.built[b+1:] {
		if o.ready <= at {
			waiting++
		}
	}
	r.emit(trace.Span{Start: at, End: at, Step: b, Batch: -1, Kind: trace.KindQueue, Track: trace.TrackQueue, Arg: waiting, Flags: uint16(capacity)})
	enq := at + ms/2
	sync(trace.Span{Start: at, End: enq, Step: b, Batch: b, Kind: trace.KindEnqueue, Track: trace.TrackStep})
	bytes := samples * 3072 * 4
	c0 := max(at+ms/8, r.copied)
	c1 := c0 + bytes*1e9/2_400_000_000
	r.copied = c1
	r.emit(trace.Span{Start: c0, End: c1, Step: b, Batch: b, Kind: trace.KindCopy, Track: trace.TrackCopy, Arg: uint32(bytes >> 10)})
	k0 := max(c1, enq)
	if n > 0 {
		k0 = max(k0, r.compute[n-1])
	}
	cost := 26 * float64(ms) * (0.1 + 0.9*float64(samples)/128)
	switch r.knob("precision") {
	case "tf32":
		cost *= 0.6
	case "bf16":
		cost *= 0.4
	}
	k1 := k0 + int64(cost*jitter(b, 9, 0.02))
	r.emit(trace.Span{Start: k0, End: k1, Step: b, Batch: b, Kind: trace.KindCompute, Track: trace.TrackCompute})
	r.compute = append(r.compute, k1)
	r.loop = enq
	r.account(b, samples, bytes, load)
}

// account adds the step and its stalls to the session.
func (r *Run) account(b int32, samples, bytes, load int64) {
	perEpoch := int32(r.snap.Meta.Samples / samples)
	st := trace.Step{
		Index: b, Batch: b, Epoch: b / perEpoch, Segment: int32(len(r.snap.Segments) - 1), Samples: int32(samples),
		Loss: float32(2.3*math.Exp(-float64(b)/900) + 0.12), Correct: int32(float64(samples) * (1 - 0.9*math.Exp(-float64(b)/700))),
		Bytes: bytes, Load: load,
	}
	if r.snap.Meta.Emulated {
		st.Loss, st.Correct = float32(math.NaN()), -1
	}
	if r.breaks > 0 && b >= r.breaks {
		st.Loss = float32(math.NaN())
	}
	if r.inTransition > 0 {
		st.Flags |= trace.FlagTransition
		r.inTransition--
	}
	var own []trace.Span
	for _, s := range r.pending {
		if s.Batch == b || s.Step == b {
			own = append(own, s)
		}
	}
	done, stalls := r.an.Feed(own, []trace.Step{st})
	r.steps = append(r.steps, done...)
	r.pending = append(r.pending, stalls...)
	if st.Flags&trace.FlagTransition != 0 {
		segs := slices.Clone(r.snap.Segments)
		segs[len(segs)-1].TransitionSteps++
		r.snap.Segments = segs
	}
}
