package train_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"
	"time"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cpu"
	"dev.gpustall/engine/device/emu"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train"
	"dev.gpustall/engine/train/prepared"
	"dev.gpustall/loader"
	"dev.gpustall/loader/transform"
)

// faulty is a device that fails where a test wants it to.
type faulty struct {
	device.Device
	calls map[string]int
	fail  func(call string, n, arg int) error // n counts the calls from 1
	skew  float64                             // of its clock
}

func (d *faulty) ask(call string, arg int) error {
	d.calls[call]++
	if d.fail == nil {
		return nil
	}
	return d.fail(call, d.calls[call], arg)
}

func (d *faulty) Alloc(n int) (device.Buffer, error) {
	if err := d.ask("alloc", n); err != nil {
		return device.Buffer{}, err
	}
	return d.Device.Alloc(n)
}

func (d *faulty) CopyIn(s device.Stream, dst device.Buffer, src []byte) error {
	if err := d.ask("copy", len(src)); err != nil {
		return err
	}
	return d.Device.CopyIn(s, dst, src)
}

func (d *faulty) Launch(s device.Stream, p device.Program) error {
	if err := d.ask("launch", 0); err != nil {
		return err
	}
	return d.Device.Launch(s, p)
}

func (d *faulty) CopyOut(s device.Stream, dst []byte, src device.Buffer) error {
	if err := d.ask("metrics", len(dst)); err != nil {
		return err
	}
	return d.Device.CopyOut(s, dst, src)
}

func (d *faulty) Elapsed(from, to device.Event) (time.Duration, error) {
	t, err := d.Device.Elapsed(from, to)
	return time.Duration(float64(t) * (1 + d.skew)), err
}

// faultyCPU is a rig on such a device.
func faultyCPU(t *testing.T, d loader.Dataset, k train.Knobs, epochs int) (*rig, *faulty) {
	c, err := cpu.Open(2)
	if err != nil {
		t.Fatal(err)
	}
	dev := &faulty{Device: c, calls: map[string]int{}}
	m := cnn(t, d)
	return newRig(t, dev, train.Config{
		Task: prepared.Task{Model: m, Seed: 1}, Dataset: d, Transform: transform.CIFARTrain(), Epochs: epochs,
		Recipe: m.Recipe(k.Loader.BatchSize), Knobs: k,
	}), dev
}

// end runs to a failure and closes all; the steps before it are recorded.
func (r *rig) end(t *testing.T, steps int, says ...string) {
	t.Helper()
	err := r.engine.Run(context.Background())
	if err == nil {
		t.Fatal("the run ended well")
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%v: does not say %q", err, s)
		}
	}
	if err := errors.Join(r.engine.Close(), r.collector.Stop(trace.Outcome{Status: "failed"}), r.dev.Close()); err != nil {
		t.Error(err)
	}
	s := r.session.Snapshot(0, 1<<62)
	if len(s.Recent) != steps {
		t.Errorf("%d steps recorded, want %d", len(s.Recent), steps)
	}
	checkSteps(t, s)
}

// cut is a data set with one sample that ends too early.
type cut struct {
	stripes
	err error
}

func (d cut) Read(ctx context.Context, s *loader.Sample) error {
	if s.Index == 100 {
		return fmt.Errorf("read 100: %w", d.err)
	}
	return d.stripes.Read(ctx, s)
}

// TestDataEnds: an error of the data set never ends a run well, whatever it wraps.
func TestDataEnds(t *testing.T) {
	for _, err := range []error{io.EOF, context.Canceled, loader.ErrEnd} {
		k := small()
		k.Loader.Shuffle = false
		r, _ := faultyCPU(t, cut{stripes{n: 256}, err}, k, 1)
		r.end(t, 100/k.Loader.BatchSize, "sample 100", err.Error())
	}
}

// stuck is a data set with one sample whose read hangs until the test ends.
type stuck struct {
	stripes
	reached, gate chan struct{}
}

func (d stuck) Read(ctx context.Context, s *loader.Sample) error {
	if s.Index == 100 {
		close(d.reached)
		<-d.gate
	}
	return d.stripes.Read(ctx, s)
}

// TestHungRead: a read that hangs delays neither the end of a cancelled run nor the
// engine's Close.
func TestHungRead(t *testing.T) {
	for _, workers := range []int{0, 2} {
		k := small()
		k.Loader.Shuffle, k.Loader.NumWorkers = false, workers
		reached, gate := make(chan struct{}), make(chan struct{})
		r, _ := faultyCPU(t, stuck{stripes{n: 256}, reached, gate}, k, 1)
		ctx, cancel := context.WithCancel(context.Background())
		steps := 100 / k.Loader.BatchSize
		ended := make(chan error, 1)
		go func() { ended <- r.engine.Run(ctx) }()
		<-reached
		r.until(func(s *trace.Snapshot) bool { return len(s.Recent) > 0 })
		cancel()
		err := <-ended
		if err = errors.Join(err, r.engine.Close()); err != nil {
			t.Error(err)
		}
		if hung := r.engine.Hung(); !errors.Is(hung, loader.ErrHung) || !strings.Contains(hung.Error(), "sample 100") {
			t.Errorf("%d workers: the worker left behind is told as %v", workers, hung)
		}
		if err := r.collector.Stop(trace.Outcome{Status: "stopped"}); err != nil {
			t.Error(err)
		}
		close(gate)
		if s := r.session.Snapshot(0, 1<<62); len(s.Recent) == 0 || len(s.Recent) > steps || len(s.Notes) == 0 || s.Notes[len(s.Notes)-1].Text != r.engine.Hung().Error() {
			t.Errorf("%d workers: %d steps, at most %d before the hung one; notes %v", workers, len(s.Recent), steps, s.Notes)
		}
		if err := r.dev.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestDeviceFails: a step that fails or panics half enqueued ends the run. None of its
// later calls are made. What was enqueued is waited for before its memory is freed.
func TestDeviceFails(t *testing.T) {
	// How many launches the sixth step has made when the call comes.
	after := map[string]int{"copy": 0, "launch": 1, "metrics": 1}
	for _, call := range []string{"copy", "launch", "metrics"} {
		t.Run(call, func(t *testing.T) {
			r, dev := faultyCPU(t, stripes{n: 256}, small(), 0)
			var made map[string]int // calls, when one failed
			dev.fail = func(c string, n, _ int) error {
				if c == call && dev.calls["launch"] == 5+after[call] && n > 5 {
					made = maps.Clone(dev.calls)
					return errors.New("the cable is loose")
				}
				return nil
			}
			r.end(t, 5, "step 5", "the cable is loose")
			if !maps.Equal(dev.calls, made) {
				t.Errorf("calls after the failed one: %v, were %v", dev.calls, made)
			}
		})
	}
	t.Run("panic", func(t *testing.T) {
		r, dev := faultyCPU(t, stripes{n: 256}, small(), 0)
		dev.fail = func(c string, n, _ int) error {
			if c == "launch" && n == 6 {
				panic("no such kernel")
			}
			return nil
		}
		r.end(t, 5, "panicked", "no such kernel")
	})
}

func small() train.Knobs {
	k := train.DefaultKnobs()
	k.Loader.BatchSize = 16
	return k
}

// broken is a data set with a sample that cannot be had.
type broken struct {
	stripes
	at    int
	panic bool
}

func (d broken) Read(ctx context.Context, s *loader.Sample) error {
	if s.Index == d.at {
		if d.panic {
			panic("index out of range")
		}
		return errors.New("input/output error")
	}
	return d.stripes.Read(ctx, s)
}

func TestDatasetFails(t *testing.T) {
	for _, workers := range []int{0, 2} {
		for _, panics := range []bool{false, true} {
			t.Run(fmt.Sprintf("workers=%d,panic=%v", workers, panics), func(t *testing.T) {
				k := small()
				k.Loader.NumWorkers, k.Loader.Shuffle = workers, false
				says := "input/output error"
				if panics {
					says = "index out of range"
				}
				r, _ := faultyCPU(t, broken{stripes{n: 256}, 100, panics}, k, 1)
				r.end(t, 6, "sample 100", says) // of 16 samples
			})
		}
	}
}

const sampleBytes = 32 * 32 * 3 * 4

// TestOutOfMemory asks for batches that do not fit. The change is refused with the
// knob's name, the old value stays in force, and no sample is lost.
func TestOutOfMemory(t *testing.T) {
	// Only the inputs of 128 samples and their activations are of these sizes.
	input := func(n int) bool { return n >= 128*sampleBytes && n < 128*sampleBytes+2048 }
	activations := func(n int) bool { return n > 10<<20 }
	tests := map[string]func(n, arg int) bool{
		"first input":  func(_, arg int) bool { return input(arg) },
		"second input": func(n, arg int) bool { return input(arg) && n%2 == 0 },
		"activations":  func(_, arg int) bool { return activations(arg) },
	}
	for name, full := range tests {
		t.Run(name, func(t *testing.T) {
			d := stripes{n: 300}
			r, dev := faultyCPU(t, d, small(), 4)
			big := 0
			dev.fail = func(c string, _, arg int) error {
				if c == "launch" && dev.calls[c] == 3 {
					if err := r.engine.Set([]knob.Setting{{Name: "batch_size", Value: "128"}, {Name: "num_workers", Value: "1"}}); err != nil {
						t.Error(err)
					}
				}
				if c == "alloc" {
					if input(arg) || activations(arg) {
						big++
					}
					if full(big, arg) {
						return device.ErrOutOfMemory
					}
				}
				return nil
			}
			s := r.run(t, context.Background())
			checkSteps(t, s)
			for _, e := range attribution.Epochs(s) {
				if e.Samples != int64(d.n) {
					t.Errorf("epoch %d trained on %d of %d samples", e.Epoch, e.Samples, d.n)
				}
			}
			if big == 0 || len(s.Segments) != 1 {
				t.Errorf("%d big buffers asked for, %d segments", big, len(s.Segments))
			}
			note := ""
			for _, n := range s.Notes {
				if n.Level == "error" {
					note = n.Text
				}
			}
			if !strings.Contains(note, "batch_size 16 -> 128") || !strings.Contains(note, "memory") {
				t.Errorf("the note says %q", note)
			}
			for _, k := range r.engine.Requested() {
				if k.Name == "batch_size" && k.Value != "16" || k.Name == "num_workers" && k.Value != "0" {
					t.Errorf("%s=%s is still asked for", k.Name, k.Value)
				}
			}
		})
	}
}

// TestMakesRoom has memory for one plan only, so plans of other shapes give way.
func TestMakesRoom(t *testing.T) {
	d := stripes{n: 40} // batches of 16, 16 and 8
	k := small()
	r, dev := faultyCPU(t, d, k, 2)
	tight := 0
	dev.fail = func(c string, n, arg int) error {
		if c == "launch" && n == 1 {
			if err := r.engine.Set([]knob.Setting{{Name: "batch_size", Value: "20"}}); err != nil {
				t.Error(err)
			}
		}
		if c == "alloc" && dev.calls["launch"] > 0 {
			if tight++; tight == 1 {
				return device.ErrOutOfMemory
			}
		}
		return nil
	}
	s := r.run(t, context.Background())
	checkSteps(t, s)
	if len(s.Segments) != 2 || tight < 2 {
		t.Errorf("%d segments after %d allocations: the change was refused", len(s.Segments), tight)
	}
	for _, e := range attribution.Epochs(s) {
		if e.Samples != int64(d.n) {
			t.Errorf("epoch %d trained on %d of %d samples", e.Epoch, e.Samples, d.n)
		}
	}
}

func TestSetRefusesAnEmptyEpoch(t *testing.T) {
	r := onCPU(t, stripes{n: 64}, small(), 1)
	err := r.engine.Set([]knob.Setting{{Name: "batch_size", Value: "128"}, {Name: "drop_last", Value: "on"}})
	if err == nil || !strings.Contains(err.Error(), "64 samples") {
		t.Errorf("an epoch without a batch: %v", err)
	}
	r.run(t, context.Background())
}

// TestClockDrift runs a device whose clock is 2 % off. Its spans stay inside what the
// host saw, however long the run is.
func TestClockDrift(t *testing.T) {
	for _, skew := range []float64{-0.02, 0.02} {
		p, err := emu.Find("h100")
		if err != nil {
			t.Fatal(err)
		}
		dev := &faulty{Device: emu.New(p, emu.NewRealClock()), calls: map[string]int{}, skew: skew}
		k := small()
		k.Loader.Inject.CPU = 200 * time.Microsecond // data-bound: the host sees each step alone
		d := stripes{n: 1 << 20}
		r := newRig(t, dev, train.Config{
			Task:    prepared.Task{Fixed: func(int) device.Operation { return emu.Fixed{Duration: time.Millisecond} }},
			Dataset: d, Transform: transform.CIFARTrain(), Steps: 100, Knobs: k,
		})
		s := r.run(t, context.Background())
		checkSteps(t, s)
		enqueued, now := map[int32]int64{}, s.Now
		for _, sp := range s.Spans {
			if sp.Kind == trace.KindEnqueue {
				enqueued[sp.Step] = sp.Start
			}
		}
		checked := 0
		for _, sp := range s.Spans {
			if sp.Kind == trace.KindCopy {
				checked++
				if from := enqueued[sp.Step]; sp.Start < from {
					t.Fatalf("skew %v: step %d was copied %v before it was enqueued", skew, sp.Step, time.Duration(from-sp.Start))
				}
			}
			if sp.Kind == trace.KindCompute && sp.End > now {
				t.Fatalf("skew %v: step %d ends %v after the run", skew, sp.Step, time.Duration(sp.End-now))
			}
		}
		if checked != 100 {
			t.Errorf("%d copies", checked)
		}
	}
}

// TestLivePrecision changes the type while it trains, and back. Once it changes to a
// type for which there is no memory, and the old one stays.
func TestLivePrecision(t *testing.T) {
	p, err := emu.Find("h100")
	if err != nil {
		t.Fatal(err)
	}
	dev := &faulty{Device: emu.New(p, emu.NewRealClock()), calls: map[string]int{}}
	d := stripes{n: 1 << 12}
	m := cnn(t, d)
	r := newRig(t, dev, train.Config{Task: prepared.Task{Model: m}, Dataset: d, Transform: transform.CIFARTrain(), Steps: 60, Knobs: small()})
	full := 0 // allocations to refuse: the plan's, and that of the second try
	dev.fail = func(c string, n, _ int) error {
		if c == "alloc" && full > 0 {
			full--
			return device.ErrOutOfMemory
		}
		if value, ok := map[int]string{10: "bf16", 20: "fp32", 30: "fp16"}[n]; ok && c == "launch" {
			if value == "fp16" {
				full = 2
			}
			if err := r.engine.Set([]knob.Setting{{Name: "precision", Value: value}}); err != nil {
				t.Error(err)
			}
		}
		return nil
	}
	s := r.run(t, context.Background())
	checkSteps(t, s)
	var reasons []string
	for _, seg := range s.Segments[1:] {
		reasons = append(reasons, seg.Reason)
	}
	if got := strings.Join(reasons, "; "); got != "precision fp32 -> bf16; precision bf16 -> fp32" || len(s.Recent) != 60 {
		t.Errorf("segments %q, %d steps", got, len(s.Recent))
	}
	if full != 0 || len(s.Notes) != 1 || !strings.Contains(s.Notes[0].Text, "precision fp32 -> fp16 not applied") {
		t.Errorf("notes %v", s.Notes)
	}
}
