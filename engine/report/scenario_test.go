package report

import (
	"math"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
	"dev.gpustall/loader"
)

// clock is set by hand.
type clock struct{ ns atomic.Int64 }

func (c *clock) Now() int64 { return c.ns.Load() }

// stretch is a part of a scripted run under constant knobs.
type stretch struct {
	reason                        string
	knobs                         []knob.Setting
	steps, workers                int
	read, decode, transform, comp time.Duration // per batch
	flags                         uint16        // of every step
	pause                         time.Duration // before its first step
}

// script is a run with known durations. Batches go through workers, a copy and a
// compute stream by the rules of the engine.
type script struct {
	meta      trace.Meta
	stretches []stretch
	perEpoch  int // steps
	loss      func(step int) (loss float32, correct int32)
	outcome   trace.Outcome
	notes     []string // warnings
	asked     []trace.Experiment
	capacity  int     // of the tracks; 0: enough
	nvml      float64 // utilisation gauge at each step; 0: none
}

const batchSize = 100

// run plays the script into a recorder, through the collector and the analysis
// into a file, and reads the file back.
func (sc script) run(t *testing.T) *trace.Snapshot {
	t.Helper()
	path := filepath.Join(t.TempDir(), sc.meta.ID+store.Ext)
	file, err := store.Create(path, sc.meta)
	if err != nil {
		t.Fatal(err)
	}
	c := &clock{}
	if sc.capacity == 0 {
		sc.capacity = 1 << 16
	}
	rec := trace.NewRecorder(c, sc.capacity)
	// The collector is started only by Stop's last drain, so what a track drops depends
	// only on the script.
	col := trace.NewCollector(rec, trace.NewSession(sc.meta), attribution.NewAnalyzer(0), file)
	p := player{script: sc, rec: rec, clock: c, rng: loader.NewRNG(1, 0, 0), free: map[int]int64{}, lastKnobs: -1}
	p.play()
	if err := col.Stop(sc.outcome); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return s.Snapshot(0, math.MaxInt64)
}

type player struct {
	script
	rec       *trace.Recorder
	clock     *clock
	rng       loader.RNG
	now       int64         // of the step loop
	done      int64         // end of the compute stream's work
	free      map[int]int64 // when each worker is free
	lastKnobs int
}

// vary makes a duration 3 % shorter to 3 % longer.
func (p *player) vary(d time.Duration) int64 {
	return int64(float64(d) * (0.97 + 0.06*p.rng.Float64()))
}

func (p *player) span(track trace.TrackID, k trace.Kind, from, to int64, step int, flags uint16, arg uint32) {
	p.rec.Track(track).Record(trace.Span{Start: from, End: to, Step: int32(step), Batch: int32(step), Kind: k, Flags: flags, Arg: arg})
}

func (p *player) play() {
	step := 0
	for i, st := range p.stretches {
		if st.pause > 0 {
			p.span(trace.TrackStep, trace.KindPause, p.now, p.now+int64(st.pause), -1, 0, 0)
			p.now += int64(st.pause)
		}
		start := p.now
		p.rec.Segment(trace.Segment{Index: int32(i), Start: start, FirstStep: int32(step), Knobs: st.knobs, Reason: st.reason})
		clear(p.free)
		for k := range st.steps {
			p.step(st, i, k, step)
			step++
		}
		end := p.now
		if i == len(p.stretches)-1 {
			end = 0
		}
		g := trace.Segment{Index: int32(i), Start: start, End: end, FirstStep: int32(step - st.steps), Knobs: st.knobs, Reason: st.reason}
		if i > 0 {
			g.TransitionSteps = 2
		}
		p.rec.Segment(g)
	}
	p.now = max(p.now, p.done)
	p.clock.ns.Store(p.now)
	for _, n := range p.notes {
		p.rec.Note("warn", n)
	}
	for _, x := range p.asked {
		p.rec.Experiment(x)
	}
}

// load builds a batch on the worker that is free first and returns when it is ready.
func (p *player) load(st stretch, step int) (ready, spent int64) {
	track, at := trace.TrackInline, p.now
	if st.workers > 0 {
		w := step % st.workers
		track = trace.Worker(w)
		at = max(p.free[w], p.now-int64(st.workers)*int64(st.comp))
		if p.free[w] == 0 {
			at = p.now
		}
	}
	begin := at
	for _, ph := range []struct {
		kind trace.Kind
		d    time.Duration
	}{{trace.KindRead, st.read}, {trace.KindDecode, st.decode}, {trace.KindTransform, st.transform}} {
		d := p.vary(ph.d)
		p.span(track, ph.kind, at, at+d, step, st.flags&trace.FlagInjected, 0)
		at += d
	}
	if st.workers > 0 {
		p.free[step%st.workers] = at
	}
	return at, at - begin
}

func (p *player) step(st stretch, segment, k, step int) {
	ready, spent := p.load(st, step)
	asked := p.now
	p.now = max(p.now, ready)
	p.span(trace.TrackStep, trace.KindNext, asked, p.now, step, 0, 0)
	p.span(trace.TrackStep, trace.KindEnqueue, p.now, p.now+100_000, step, 0, 0)
	copyEnd := p.now + 50_000 + 300_000
	p.span(trace.TrackCopy, trace.KindCopy, p.now+50_000, copyEnd, step, 0, 1200)
	from := max(p.done, copyEnd)
	p.done = from + p.vary(st.comp)
	p.now += 100_000
	modelled := uint16(0)
	if p.meta.Emulated {
		modelled = trace.FlagModelled
	}
	p.span(trace.TrackCompute, trace.KindCompute, from, p.done, step, modelled, 0)
	if p.now < from { // one step in flight
		p.span(trace.TrackStep, trace.KindSync, p.now, from, step, 0, 0)
		p.now = from
	}
	p.clock.ns.Store(p.done)
	if p.nvml > 0 {
		p.rec.Gauge("nvml_util", p.nvml)
	}
	s := trace.Step{
		Index: int32(step), Epoch: int32(step / p.perEpoch), Segment: int32(segment), Batch: int32(step), Samples: batchSize,
		Bytes: 1_228_800, Flags: st.flags | modelled,
	}
	s.Load = spent
	if step%p.perEpoch == 0 {
		s.Flags |= trace.FlagFirstOfEpoch
	}
	if step%p.perEpoch == p.perEpoch-1 {
		s.Flags |= trace.FlagLastOfEpoch
	}
	if segment > 0 && k < 2 {
		s.Flags |= trace.FlagTransition
	}
	s.Loss, s.Correct = float32(math.NaN()), -1
	if p.loss != nil {
		s.Loss, s.Correct = p.loss(step)
	}
	p.rec.Step(s)
}

func knobs(workers string, more ...knob.Setting) []knob.Setting {
	return append([]knob.Setting{
		{Name: "num_workers", Value: workers}, {Name: "prefetch_factor", Value: "2"}, {Name: "pin_memory", Value: "off"},
		{Name: "batch_size", Value: "100"},
	}, more...)
}

func learning(step int) (float32, int32) { return 2.3 / (1 + float32(step)/50), int32(10 + step/4) }

var started = time.Date(2025, 3, 4, 5, 6, 7, 0, time.UTC)

// meta of an ordinary run.
func meta(id string) trace.Meta {
	return trace.Meta{
		ID: id, Version: "test", Started: started, Command: []string{"gpustall", "run", "--data", "my data"},
		Device: "cpu (Example, 2 threads)", DeviceKind: "cpu", Model: "cnn", Params: 1_234_567,
		Dataset: "CIFAR-10", Format: "cifar10-binary", Samples: 60 * batchSize, Classes: 10, Seed: 1,
		Host:  []knob.Setting{{Name: "os", Value: "linux"}, {Name: "threads", Value: "8"}},
		Specs: []knob.Spec{{Name: "num_workers", Type: "int", Max: 64}, {Name: "pin_memory", Type: "bool", NoEffect: "the cpu device copies within host memory"}},
	}
}

// scripts are the sessions of the goldens.
func scripts() map[string]script {
	const ms = time.Millisecond
	slow := stretch{reason: "start", knobs: knobs("0"), steps: 80, workers: 0, read: ms, decode: 2 * ms, transform: 9 * ms, comp: 8 * ms}
	fast := stretch{reason: "num_workers 0 -> 4", knobs: knobs("4"), steps: 110, workers: 4, read: ms, decode: 2 * ms, transform: 9 * ms, comp: 8 * ms}
	all := map[string]script{}

	ceiling := stretch{
		reason: "ceiling off -> on", knobs: knobs("4", knob.Setting{Name: "ceiling", Value: "on"}), steps: 20, workers: 4,
		read: 1000, decode: 1000, transform: 1000, comp: 8 * ms, flags: trace.FlagCeiling,
	}
	before := slow // both long enough to be compared
	before.steps, fast.steps = 170, 270
	tuned := script{
		meta: meta("tuned"), stretches: []stretch{before, fast, ceiling}, perEpoch: 60, loss: learning,
		outcome: trace.Outcome{Status: "finished", PeakBytes: 300 << 20}, nvml: 97,
	}
	tuned.meta.Synthetic, tuned.meta.Dataset = true, "synthetic CIFAR-10"
	all["tuned"] = tuned

	turn, back := fast, slow
	turn.steps, back.steps, back.reason = 60, 60, "num_workers 4 -> 0"
	answered := trace.Experiment{
		Kind: trace.Paired, Start: 2e9, End: 9e9, First: 1, Last: 3, Budget: 300e9, Kept: true,
		A: []knob.Setting{{Name: "num_workers", Value: "0"}}, B: []knob.Setting{{Name: "num_workers", Value: "4"}},
	}
	for i := range int64(7) {
		answered.Pairs = append(answered.Pairs, trace.Pair{
			A:       trace.Block{Steps: 100, Samples: 100 * batchSize, Active: 2e9 + i*1e7, Busy: 8e8},
			B:       trace.Block{Steps: 200, Samples: 200 * batchSize, Active: 2e9 - i*1e7, Busy: 16e8},
			LeftOut: 9,
		})
	}
	stopped := trace.Experiment{
		Index: 1, Kind: trace.Ceiling, Start: 10e9, First: 5, Last: 4, End: 11e9,
		Why: "it was stopped", B: []knob.Setting{{Name: "ceiling", Value: "on"}},
	}
	all["asked"] = script{
		meta: meta("asked"), stretches: []stretch{before, turn, back, turn, turn}, perEpoch: 60, loss: learning,
		outcome: trace.Outcome{Status: "finished"}, asked: []trace.Experiment{answered, stopped},
	}

	start := stretch{reason: "start", knobs: knobs("4"), steps: 30, workers: 4, read: 40 * ms, decode: ms, transform: ms, comp: 5 * ms}
	em := script{meta: meta("emulated"), stretches: []stretch{start}, perEpoch: 60, outcome: trace.Outcome{Status: "stopped",
		Unsaved: trace.Unsaved{Steps: 2, Spans: 3456, From: 400e6, To: 900e6}}}
	em.meta.Device, em.meta.DeviceKind, em.meta.Emulated, em.meta.Model, em.meta.Params = "emulated H100", "emu", true, "resnet18", 11_173_962
	all["emulated"] = em

	all["empty"] = script{meta: meta("empty"), outcome: trace.Outcome{Status: "failed", Error: "read data_batch_3.bin: it is truncated"}, perEpoch: 60}

	injected := slow
	injected.flags, injected.knobs = trace.FlagInjected, knobs("0", knob.Setting{Name: "inject_cpu", Value: "50µs"})
	cured := slow
	off := knob.Setting{Name: "inject_cpu", Value: "0s"}
	cured.reason, cured.transform, cured.knobs, cured.pause = "inject_cpu 50µs -> 0s", 4*ms, knobs("0", off), 2*time.Second
	same := cured
	same.reason, same.pause = "prefetch_factor 2 -> 3", 0
	same.knobs = append(knobs("0", off), knob.Setting{Name: "prefetch_factor", Value: "3"})
	all["injected"] = script{meta: meta("injected"), stretches: []stretch{injected, cured, same}, perEpoch: 60,
		loss: func(step int) (float32, int32) {
			if step > 150 {
				return float32(math.NaN()), 10
			}
			return learning(step)
		},
		outcome: trace.Outcome{Status: "killed"}, notes: []string{"the disk is slow | really", "two\nlines"}, capacity: 256}

	all["imported"] = script{
		meta:      trace.Meta{ID: "imported", Started: started, Device: "Tesla V100", DeviceKind: "cuda", Imported: "resnet50.pt.trace.json"},
		stretches: []stretch{{reason: "start", steps: 6, workers: 0, read: ms, decode: 30 * ms, transform: 30 * ms, comp: 100 * ms}},
		perEpoch:  1000, outcome: trace.Outcome{Status: "finished"},
	}
	return all
}
