// Package demo is a simulated training run, for the screen's tests and for trying the screen out.
// Batches, workers, queue and device follow a small model of a pipeline in virtual time. The knobs
// work, and each run is the same. The demo measures nothing. Its sessions are marked synthetic and
// emulated unless a test says otherwise, and no command of gpustall uses it.
package demo

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

const ms = int64(time.Millisecond)

// Run is a simulated run. It implements the screen's Source and Control.
type Run struct {
	mu    sync.Mutex
	now   func() int64 // ns; nil: Advance sets the time
	snap  trace.Snapshot
	steps []trace.Step
	spans []trace.Span // sorted by Start
	an    *attribution.Analyzer
	want  []knob.Setting
	fail  error

	free         [trace.MaxWorkers]int64 // when each worker is free
	built        []build                 // every batch dispatched so far
	consumed     []int64                 // when the step loop took each batch
	loop         int64                   // when the step loop asks for the next batch
	compute      []int64                 // end of each step's compute
	copied       int64
	paused       bool
	pausedAt     int64
	pending      []trace.Span // they end later than the time simulated
	inTransition int32
	breaks       int32 // the first step whose loss is NaN, 0 for none
}

// New begins a run. now is a clock in ns. Where it is nil, Advance sets the time.
func New(now func() int64) *Run { return begin(now, "2") }

// Fed begins a run that has more workers than its device needs.
func Fed(now func() int64) *Run { return begin(now, "8") }

func begin(now func() int64, workers string) *Run {
	r := &Run{now: now, an: attribution.NewAnalyzer(0)}
	r.snap.Meta = trace.Meta{
		ID: "demo", Version: "demo", Device: "NVIDIA H100 80GB HBM3", DeviceKind: "emu", Emulated: true,
		Model: "resnet18", Params: 11_173_962, Dataset: "CIFAR-10", Format: "synthetic", Synthetic: true,
		Samples: 50_000, Classes: 10, Specs: Specs(),
	}
	r.snap.Outcome.Status = "running"
	r.snap.Gauges = map[string][]trace.Point{}
	r.want = []knob.Setting{
		{Name: "num_workers", Value: workers}, {Name: "prefetch_factor", Value: "2"}, {Name: "pin_memory", Value: "off"},
		{Name: "persistent_workers", Value: "on"}, {Name: "in_order", Value: "on"}, {Name: "batch_size", Value: "128"},
		{Name: "device_transforms", Value: "off"}, {Name: "ceiling", Value: "off"},
		{Name: "precision", Value: "fp32"}, {Name: "grad_accumulation", Value: "1"},
		{Name: "inject_read", Value: "off"}, {Name: "inject_cpu", Value: "off"}, {Name: "inject_straggler", Value: "0"},
	}
	r.segment(0, "start")
	r.note(0, "info", "training resnet18 on CIFAR-10")
	return r
}

// Session begins a run of 9 s with the labels of a real device: two workers, then four, then
// injected computing.
func Session() *Run {
	r := New(nil).Meta(func(m *trace.Meta) {
		m.Emulated, m.Synthetic, m.DeviceKind = false, false, "cuda"
	})
	r.Gauge("nvml_util", 0, 90)
	r.Gauge("nvml_util", 1e9, 97)
	r.Gauge("pinned_bytes", 0, 412e6)
	for name, v := range map[string]float64{"gpm_sm": 52, "gpm_tensor": 23, "nvml_power": 351, "nvml_temperature": 61} {
		r.Gauge(name, 0, v)
		r.Gauge(name, 1e9, v)
	}
	r.Until(4500)
	_ = r.Set([]knob.Setting{{Name: "num_workers", Value: "4"}})
	r.Until(7500)
	_ = r.Set([]knob.Setting{{Name: "inject_cpu", Value: "1ms"}})
	r.Until(9000)
	return r
}

// Specs returns the knobs of the simulated run.
func Specs() []knob.Spec {
	return []knob.Spec{
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

// Meta lets a test change the labels of the run.
func (r *Run) Meta(f func(m *trace.Meta)) *Run { f(&r.snap.Meta); return r }

// Fail makes Set refuse with err.
func (r *Run) Fail(err error) { r.fail = err }

// End ends the run now.
func (r *Run) End(status string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.snap.Outcome = trace.Outcome{Ended: r.snap.Now, Status: status}
}

// Now returns the time simulated, in ns.
func (r *Run) Now() int64 { return r.snap.Now }

// Gauge adds a sample to a gauge.
func (r *Run) Gauge(name string, t int64, v float64) {
	r.snap.Gauges[name] = append(r.snap.Gauges[name], trace.Point{T: t, V: v})
}

// Knob adds a knob to the newest segment.
func (r *Run) Knob(name, value string) {
	g := &r.snap.Segments[len(r.snap.Segments)-1]
	g.Knobs = append(slices.Clone(g.Knobs), knob.Setting{Name: name, Value: value})
}

// Ops sets the table of device ops.
func (r *Run) Ops(ops []trace.OpTime) { r.snap.Ops = ops }

// Timed marks every nth step so far as one whose ops were timed.
func (r *Run) Timed(n int) {
	for i := range r.steps {
		if i%n == n-1 {
			r.steps[i].Flags |= trace.FlagTimed
		}
	}
}

// Note adds a line to the log.
func (r *Run) Note(level, text string) { r.note(r.snap.Now, level, text) }

// Diverge makes the loss NaN from a step on.
func (r *Run) Diverge(step int32) { r.breaks = step }

// Drop counts spans as dropped.
func (r *Run) Drop(n int64) { r.snap.Outcome.Drops[trace.TrackStep] = n }

func (r *Run) segment(t int64, reason string) {
	n := len(r.snap.Segments)
	segs := slices.Clone(r.snap.Segments)
	if n > 0 {
		segs[n-1].End = t
	}
	r.snap.Segments = append(segs, trace.Segment{
		Index: int32(n), Start: t, FirstStep: int32(len(r.steps)), Knobs: slices.Clone(r.want), Reason: reason,
	})
	if n > 0 {
		r.inTransition = 6
	}
}

func (r *Run) note(t int64, level, text string) {
	r.snap.Notes = append(r.snap.Notes, trace.Note{T: t, Level: level, Text: text})
}

// knob returns a knob's value in force.
func (r *Run) knob(name string) string {
	return knob.ValueOf(r.snap.Segments[len(r.snap.Segments)-1].Knobs, name)
}

func (r *Run) num(name string) int64 {
	v, _ := strconv.ParseInt(r.knob(name), 10, 64)
	return v
}

func (r *Run) dur(name string) int64 {
	d, _ := time.ParseDuration(r.knob(name))
	return int64(d)
}
