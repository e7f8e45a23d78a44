//go:build cuda && cgo && linux

package cuda

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/engine/train/prepared"
	"dev.gpustall/kernels"
	"dev.gpustall/loader"
	"dev.gpustall/loader/transform"
)

// noise is a data set in memory of random pictures, 8 x 8.
type noise struct{ n int }

func (d noise) Info() loader.Info {
	return loader.Info{Name: "noise", Format: "memory", Samples: d.n, H: 8, W: 8, C: 3, Classes: []string{"a", "b", "c"}, Synthetic: true}
}

func (d noise) Read(_ context.Context, s *loader.Sample) error {
	s.Label = int32(s.Index % 3)
	s.Raw = append(s.Raw[:0], byte(s.Label))
	return nil
}

func (d noise) Decode(s *loader.Sample) error {
	rng := loader.NewRNG(9, 0, s.Index)
	s.H, s.W, s.C = 8, 8, 3
	s.Pixels = s.Pixels[:0]
	for range s.H * s.W * s.C {
		s.Pixels = append(s.Pixels, byte(rng.IntN(256)))
	}
	return nil
}

func (noise) Close() error { return nil }

// run is a training run of the engine on the CUDA device, which changes knobs after
// given steps and counts what it takes from the driver.
type run struct {
	model   string
	samples int // of the data set; 0: three batches and one
	batch   int
	typ     kernels.Type
	steps   int
	change  map[int]knob.Setting // by number of launched steps
	tune    bool
}

type ran struct {
	dev   *Device
	snap  *trace.Snapshot
	plan  trace.Memory
	taken []int64 // from the driver
	err   error   // of New
}

// meter counts a device's launches and sets knobs.
type meter struct {
	*Device
	n  int
	at func(n int)
}

func (m *meter) count() {
	m.n++
	if m.at != nil {
		m.at(m.n)
	}
}

func (m *meter) Launch(s device.Stream, p device.Program) error {
	m.count()
	return m.Device.Launch(s, p)
}

func (m *meter) LaunchTimed(s device.Stream, p device.Program) (device.Timing, error) {
	m.count()
	return m.Device.LaunchTimed(s, p)
}

func (c run) train(t *testing.T) (out ran) {
	t.Helper()
	if c.samples == 0 {
		c.samples = 3*c.batch + 1
	}
	store := Choices(nil)
	if c.tune {
		store = storeInMemory{}
	}
	d := openWith(t, Config{Choices: store, Trials: trials, TuneEmulated: c.tune})
	out.dev = d
	grow := d.mem.grow
	d.mem.grow = func(n int64) (uint64, error) {
		addr, err := grow(n)
		if err == nil {
			out.taken = append(out.taken, n)
		}
		return addr, err
	}
	m, err := nn.New(c.model, nn.Shape{H: 8, W: 8, C: 3}, 3)
	if err != nil {
		t.Fatal(err)
	}
	k := train.DefaultKnobs()
	k.Loader.BatchSize, k.Precision = c.batch, c.typ
	rec := trace.NewRecorder(trace.NewClock(), 1<<14)
	dev := &meter{Device: d}
	cfg := train.Config{
		Task: prepared.Task{Model: m, Seed: 1}, Device: dev, Recorder: rec, Dataset: noise{c.samples}, Transform: transform.SmallTrain(8),
		Steps: c.steps, Recipe: m.Recipe(c.batch), Knobs: k,
	}
	if c.tune {
		cfg.TuneLimit = 1 << 40
	}
	e, err := train.New(cfg)
	if err != nil {
		out.err = err
		return out
	}
	dev.at = func(n int) {
		if k, ok := c.change[n]; ok {
			if err := e.Set([]knob.Setting{k}); err != nil {
				t.Error(err)
			}
		}
	}
	s := trace.NewSession(trace.Meta{})
	col := trace.NewCollector(rec, s, attribution.NewAnalyzer(rec.Now()), nil)
	col.Start()
	err = e.Run(t.Context())
	out.plan = e.Memory()
	if err := errors.Join(err, e.Close(), col.Stop(trace.Outcome{Status: "finished"})); err != nil {
		t.Fatal(err)
	}
	out.snap = s.Snapshot(0, math.MaxInt64)
	return out
}

// launches are a model's for batches of a size.
func launches(t *testing.T, model string, batch int) []device.Launch {
	t.Helper()
	m, err := nn.New(model, nn.Shape{H: 8, W: 8, C: 3}, 3)
	if err != nil {
		t.Fatal(err)
	}
	ls, err := m.Launches(nn.PlanConfig{Batch: batch})
	if err != nil {
		t.Fatal(err)
	}
	return ls
}

// A run lives in one allocation of the driver's, planned before the first; so it does
// while knobs change to what needs no more, and while kernels are tuned.
func TestOneAllocation(t *testing.T) {
	cases := map[string]run{
		"steady": {model: "cnn", batch: 16, steps: 6},
		"smaller and back": {model: "cnn", batch: 16, steps: 40, change: map[int]knob.Setting{
			3: {Name: "batch_size", Value: "5"}, 8: {Name: "batch_size", Value: "16"}, 12: {Name: "device_transforms", Value: "on"},
			16: {Name: "batch_size", Value: "12"}, 20: {Name: "device_transforms", Value: "off"},
		}},
		"bf16 from the start": {model: "cnn", batch: 16, typ: kernels.BF16, steps: 10, change: map[int]knob.Setting{4: {Name: "capture", Value: "on"}}},
		"tuned":               {model: "cnn", batch: 8, steps: 10, tune: true, change: map[int]knob.Setting{4: {Name: "batch_size", Value: "6"}}},
	}
	if !testing.Short() {
		cases["resnet18"] = run{model: "resnet18", batch: 4, steps: 4}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := c.train(t)
			if r.err != nil {
				t.Fatal(r.err)
			}
			if len(r.taken) != 1 {
				t.Errorf("took %v from the driver", r.taken)
			}
			if len(r.snap.Segments) != 1+len(c.change) || len(r.snap.Recent) != c.steps {
				t.Errorf("%d segments and %d steps for %d changes: %+v", len(r.snap.Segments), len(r.snap.Recent), len(c.change), r.snap.Notes)
			}
			// What was planned is what was taken, but for roundings.
			if total := r.plan.Total(); len(r.taken) > 0 && (total > r.taken[0] || r.taken[0]-total > 4<<20) {
				t.Errorf("planned %d (%v), taken %d", total, r.plan, r.taken[0])
			}
			if peak := r.dev.MemoryPeak(); len(r.taken) > 0 && peak > r.taken[0] {
				t.Errorf("a peak of %d in %d", peak, r.taken[0])
			}
			if c.tune {
				if got := r.dev.Tuned(); len(got) < 4 {
					t.Errorf("decided on %d kernels", len(got))
				}
				said := false // nothing is tried while it trains
				for _, n := range r.snap.Notes {
					said = said || strings.Contains(n.Text, "never tried on this GPU")
				}
				if !said || r.dev.Untuned(launches(t, c.model, 6)) == 0 {
					t.Errorf("the change took variants that were never tried, and said %+v", r.snap.Notes)
				}
			}
		})
	}
}

// TestAutotuneLive: off brings the planner's guesses back, on what trials found, and
// neither tries anything twice.
func TestAutotuneLive(t *testing.T) {
	c := run{model: "cnn", batch: 4, samples: 24, typ: kernels.BF16, steps: 18, tune: true, change: map[int]knob.Setting{
		6: {Name: "autotune", Value: "off"}, 12: {Name: "autotune", Value: "on"},
	}}
	r := c.train(t)
	if r.err != nil {
		t.Fatal(r.err)
	}
	if len(r.snap.Segments) != 3 || len(r.taken) != 1 {
		t.Fatalf("%d segments, took %v: %+v", len(r.snap.Segments), r.taken, r.snap.Notes)
	}
	var used [3]map[string]string // by segment: op and layer to variant
	for _, o := range r.snap.Ops {
		if used[o.Segment] == nil {
			used[o.Segment] = map[string]string{}
		}
		used[o.Segment][o.Name+" "+o.Layer] = o.Variant
	}
	differ := 0
	for _, d := range r.dev.Tuned() {
		key := d.Op + " " + d.Layer
		if got, want := [3]string{used[0][key], used[1][key], used[2][key]}, [3]string{d.Variant, d.First, d.Variant}; got != want {
			t.Errorf("%s ran %v, want %v", key, got, want)
		}
		if d.Variant != d.First {
			differ++
		}
	}
	if differ == 0 {
		t.Skip("every guess of the planner's was the fastest this time, so off and on are the same")
	}
}

// A knob that needs more takes one further piece, or is refused while the run goes
// on with what it has.
func TestGrowsLive(t *testing.T) {
	c := run{model: "cnn", samples: 100, batch: 8, steps: 16, change: map[int]knob.Setting{3: {Name: "batch_size", Value: "20"}, 9: {Name: "precision", Value: "bf16"}}}
	r := c.train(t)
	if r.err != nil {
		t.Fatal(r.err)
	}
	if len(r.taken) != 2 || len(r.snap.Segments) != 3 {
		t.Errorf("took %v from the driver; %d segments", r.taken, len(r.snap.Segments))
	}
}

func TestTooLargeLive(t *testing.T) {
	if !emulated(open(t)) {
		t.Skip("a real GPU has its own memory")
	}
	t.Setenv("GPUSTALL_EMU_MEMORY", "24")
	c := run{model: "cnn", samples: 5000, batch: 8, steps: 20, change: map[int]knob.Setting{3: {Name: "batch_size", Value: "4096"}}}
	r := c.train(t)
	if r.err != nil {
		t.Fatal(r.err)
	}
	note := ""
	for _, n := range r.snap.Notes {
		if n.Level == "error" {
			note = n.Text
		}
	}
	if len(r.taken) != 1 || len(r.snap.Recent) != 20 || !strings.Contains(note, "not applied") || !strings.Contains(note, "lower batch_size to ") {
		t.Errorf("took %v, %d steps, note %q", r.taken, len(r.snap.Recent), note)
	}
}

func TestTooLargeAtStart(t *testing.T) {
	if !emulated(open(t)) {
		t.Skip("a real GPU has its own memory")
	}
	t.Setenv("GPUSTALL_EMU_MEMORY", "24")
	r := run{model: "cnn", batch: 4096, steps: 1}.train(t)
	if !errors.Is(r.err, device.ErrOutOfMemory) || len(r.taken) != 0 {
		t.Fatalf("%v, taken %v", r.err, r.taken)
	}
	for _, says := range []string{"activations", "inputs", "parameters", "kernels", "22 of the GPU's 24 MiB are free", "lower batch_size to "} {
		if !strings.Contains(r.err.Error(), says) {
			t.Errorf("%v: does not say %q", r.err, says)
		}
	}
	// The device is as it was.
	s, _, p := rig(t, r.dev, 1000)
	e, _ := r.dev.NewEvent()
	if err := errors.Join(r.dev.Launch(s, p), r.dev.Record(s, e), r.dev.Sync(e)); err != nil {
		t.Error(err)
	}
}

// A plan that fits in place of the old one and not beside it moves everything there,
// and training goes on as if nothing had been.
func TestMovesLive(t *testing.T) {
	if !emulated(open(t)) {
		t.Skip("a real GPU has its own memory")
	}
	c := run{model: "cnn", samples: 600, batch: 100, steps: 4, change: map[int]knob.Setting{2: {Name: "batch_size", Value: "250"}}}
	free := c.train(t)
	if err := free.dev.Close(); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GPUSTALL_EMU_MEMORY", "8")
	tight := c.train(t)
	if err := errors.Join(free.err, tight.err); err != nil {
		t.Fatal(err)
	}
	if len(tight.taken) != 2 || tight.taken[0]+tight.taken[1] <= 8<<20 || len(tight.dev.mem.pieces) != 1 {
		t.Errorf("took %v, holds %d pieces", tight.taken, len(tight.dev.mem.pieces))
	}
	said := false
	for _, n := range tight.snap.Notes {
		said = said || strings.Contains(n.Text, "moved from 4.00 MiB")
	}
	if !said || len(tight.snap.Segments) != 2 {
		t.Errorf("%d segments, notes %+v", len(tight.snap.Segments), tight.snap.Notes)
	}
	for i := range free.snap.Recent {
		if a, b := free.snap.Recent[i].Loss, tight.snap.Recent[i].Loss; a != b || math.IsNaN(float64(a)) {
			t.Errorf("step %d: loss %v with room, %v after a move", i, a, b)
		}
	}
}
