// Package demo is a simulated training run for the screen's tests and for
// trying the screen out: batches, workers, queue and device follow a small
// model of a pipeline in virtual time, seeded, with the knobs connected. It
// measures nothing. What it makes is marked synthetic and emulated unless a
// test says otherwise, and no command of gpustall reaches it.
package demo

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"sync"
	"time"

	"dev.gpustall/engine/stall"
	"dev.gpustall/engine/trace"
)

// build is one batch: when it is ready and what it took.
type build struct{ ready, samples, load int64 }

const ms = int64(time.Millisecond)

// ahead is how far the simulation runs ahead of the time shown, so that workers
// are seen to work on batches that the device will need later.
const ahead = 250 * ms

// Run is a simulated run. It implements the screen's Source and Control.
type Run struct {
	mu    sync.Mutex
	now   func() int64 // nil: time is what Advance says
	snap  trace.Snapshot
	spans []trace.Span // sorted by Start up to sorted
	an    *stall.Analyzer
	want  []trace.Knob
	fail  error

	free         [trace.MaxWorkers]int64 // when each worker is free
	built        []build                 // every batch dispatched so far
	consumed     []int64                 // when the step loop took each batch
	loop         int64                   // when the step loop is at Next again
	compute      []int64                 // end of each step's compute
	copied       int64
	paused       bool
	pausedAt     int64
	pending      []trace.Span // of later than the time simulated
	inTransition int32
}

// New begins a run. now is a clock in ns, or nil to drive it with Advance.
func New(now func() int64) *Run {
	r := &Run{now: now, an: stall.NewAnalyzer(0)}
	r.snap.Meta = trace.Meta{
		ID: "demo", Version: "demo", Device: "NVIDIA H100 80GB HBM3", DeviceKind: "emu", Emulated: true,
		Model: "resnet18", Params: 11_173_962, Dataset: "CIFAR-10", Format: "synthetic", Synthetic: true,
		Samples: 50_000, Classes: 10, Specs: Specs(),
	}
	r.snap.Outcome.Status = "running"
	r.snap.Gauges = map[string][]trace.Point{}
	r.want = []trace.Knob{
		{Name: "num_workers", Value: "2"}, {Name: "prefetch_factor", Value: "2"}, {Name: "pin_memory", Value: "off"},
		{Name: "persistent_workers", Value: "on"}, {Name: "in_order", Value: "on"}, {Name: "batch_size", Value: "128"},
		{Name: "device_transforms", Value: "off"}, {Name: "ceiling", Value: "off"},
		{Name: "precision", Value: "fp32"}, {Name: "grad_accumulation", Value: "1"},
		{Name: "inject_read", Value: "off"}, {Name: "inject_cpu", Value: "off"}, {Name: "inject_straggler", Value: "0"},
	}
	r.segment(0, "start")
	r.note(0, "info", "training resnet18 on CIFAR-10")
	return r
}

// Specs are the knobs of the simulated run.
func Specs() []trace.KnobSpec {
	return []trace.KnobSpec{
		{Name: "num_workers", Type: "int", Max: 64, Values: []string{"0", "1", "2", "4", "6", "8", "12", "16", "24", "32", "48", "64"}, Applied: "next batch", Group: "loader", Help: "worker goroutines that build batches"},
		{Name: "prefetch_factor", Type: "int", Min: 1, Max: 16, Applied: "next dispatch", Group: "loader", Help: "batches in flight for each worker"},
		{Name: "pin_memory", Type: "bool", Applied: "next slot", Group: "loader", Help: "page-locked batch slots", NoEffect: "the device has no page-locked memory"},
		{Name: "persistent_workers", Type: "bool", Applied: "next epoch end", Group: "loader", Help: "keep workers from epoch to epoch"},
		{Name: "in_order", Type: "bool", Applied: "next batch", Group: "loader", Help: "deliver batches in the sampler's order"},
		{Name: "batch_size", Type: "int", Min: 1, Max: 1024, Values: []string{"16", "32", "64", "128", "256", "512", "1024"}, Applied: "next dispatched batch", Group: "loader", Help: "samples a step"},
		{Name: "device_transforms", Type: "bool", Applied: "next batch", Group: "loader", Help: "crop, flip and normalise on the device"},
		{Name: "ceiling", Type: "bool", Applied: "next batch", Group: "loader", Help: "serve cached batches: what if data were free?"},
		{Name: "precision", Type: "enum", Values: []string{"fp32", "tf32", "bf16"}, Applied: "next step", Group: "engine", Help: "type of the compute"},
		{Name: "grad_accumulation", Type: "int", Min: 1, Max: 64, Applied: "next step", Group: "engine", Help: "batches to one optimizer step"},
		{Name: "inject_read", Type: "duration", Applied: "next batch", Group: "inject", Help: "extra time for each sample's read"},
		{Name: "inject_cpu", Type: "duration", Applied: "next batch", Group: "inject", Help: "extra computing for each sample's transform"},
		{Name: "inject_straggler", Type: "int", Max: 64, Applied: "next batch", Group: "inject", Help: "this worker is 50 ms late with each batch"},
	}
}

// Meta lets a test relabel the run.
func (r *Run) Meta(f func(m *trace.Meta)) *Run { f(&r.snap.Meta); return r }

// Fail makes Set refuse with err.
func (r *Run) Fail(err error) { r.fail = err }

// End ends the run now.
func (r *Run) End(status string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.snap.Outcome = trace.Outcome{Ended: r.snap.Now, Status: status}
}

// Now is the time simulated.
func (r *Run) Now() int64 { return r.snap.Now }

// Gauge adds a sample.
func (r *Run) Gauge(name string, t int64, v float64) {
	r.snap.Gauges[name] = append(r.snap.Gauges[name], trace.Point{T: t, V: v})
}

// Drop counts spans as dropped.
func (r *Run) Drop(n int64) { r.snap.Outcome.Drops[trace.TrackStep] = n }

func (r *Run) segment(t int64, reason string) {
	n := len(r.snap.Segments)
	segs := slices.Clone(r.snap.Segments)
	if n > 0 {
		segs[n-1].End = t
	}
	r.snap.Segments = append(segs, trace.Segment{
		Index: int32(n), Start: t, FirstStep: int32(len(r.snap.Steps)), Knobs: slices.Clone(r.want), Reason: reason,
	})
	if n > 0 {
		r.inTransition = 6
	}
}

func (r *Run) note(t int64, level, text string) {
	r.snap.Notes = append(r.snap.Notes, trace.Note{T: t, Level: level, Text: text})
}

// knob is a value in force.
func (r *Run) knob(name string) string {
	for _, k := range r.snap.Segments[len(r.snap.Segments)-1].Knobs {
		if k.Name == name {
			return k.Value
		}
	}
	return ""
}

func (r *Run) num(name string) int64 {
	v, _ := strconv.ParseInt(r.knob(name), 10, 64)
	return v
}

func (r *Run) dur(name string) int64 {
	d, _ := time.ParseDuration(r.knob(name))
	return int64(d)
}

// Snapshot implements the screen's Source.
func (r *Run) Snapshot(from, to int64) *trace.Snapshot {
	if r.now != nil {
		r.Advance(r.now())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.snap
	if to <= 0 {
		from, to = s.Now+from, s.Now+to
	}
	s.Gauges = map[string][]trace.Point{}
	for k, v := range r.snap.Gauges {
		s.Gauges[k] = v
	}
	n := len(s.Steps)
	for n > 0 && s.Steps[n-1].End > s.Now { // known once their compute has ended
		n--
	}
	s.Steps = s.Steps[:n:n]
	n = len(s.Segments)
	for n > 1 && s.Segments[n-1].Start > s.Now {
		n--
	}
	s.Segments = s.Segments[:n:n]
	for _, sp := range r.spans {
		if sp.Start <= to && sp.End >= from {
			s.Spans = append(s.Spans, sp)
		}
	}
	return &s
}

// Set implements the screen's Control.
func (r *Run) Set(changes []trace.Knob) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return r.fail
	}
	reason := ""
	for _, c := range changes {
		for i := range r.want {
			if r.want[i].Name == c.Name {
				if reason != "" {
					reason += ", "
				}
				reason += fmt.Sprintf("%s %s -> %s", c.Name, r.want[i].Value, c.Value)
				r.want = slices.Clone(r.want)
				r.want[i].Value = c.Value
			}
		}
	}
	for i := int(r.num("num_workers")); i < len(r.free); i++ {
		r.free[i] = max(r.free[i], r.loop) // a worker that starts later
	}
	r.segment(r.loop, reason)
	r.note(r.snap.Now, "info", reason)
	return nil
}

// Requested implements the screen's Control.
func (r *Run) Requested() []trace.Knob { r.mu.Lock(); defer r.mu.Unlock(); return r.want }

// Pause implements the screen's Control.
func (r *Run) Pause(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if on && !r.paused {
		r.pausedAt = max(r.loop, r.snap.Now)
	}
	if !on && r.paused {
		r.emit(trace.Span{Start: r.pausedAt, End: r.snap.Now, Step: int32(len(r.snap.Steps)), Batch: -1, Kind: trace.KindPause, Track: trace.TrackStep})
		r.loop = max(r.loop, r.snap.Now)
	}
	r.paused = on
}

// Paused implements the screen's Control.
func (r *Run) Paused() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.paused }

// jitter is a factor around 1 that depends on the batch and the phase alone.
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
		f *= 1 + 2*spread // now and then a slow one
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

// step simulates one step, after the workers have taken what they may.
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
	if isOn(r.knob("device_transforms")) {
		phases[2].ns *= 0.15
	}
	if isOn(r.knob("ceiling")) {
		for i := range phases {
			phases[i].ns *= 0.01
		}
	}
	// The worker that is free first takes the batch, when prefetch allows.
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
	r.emit(trace.Span{Start: at, End: at, Step: b, Batch: b, Kind: trace.KindQueue, Track: trace.TrackQueue, Arg: waiting, Flags: uint16(capacity)})
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

// account turns the step into the session's, with its stalls.
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
	r.snap.Steps = append(r.snap.Steps, done...)
	r.pending = append(r.pending, stalls...)
	if st.Flags&trace.FlagTransition != 0 {
		segs := slices.Clone(r.snap.Segments)
		segs[len(segs)-1].TransitionSteps++
		r.snap.Segments = segs
	}
}

func isOn(v string) bool { return v == "true" || v == "on" }
