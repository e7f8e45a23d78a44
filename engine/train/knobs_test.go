package train_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/train"
	"dev.gpustall/loader"
)

// TestLiveKnobs changes knobs while the engine trains: every sample of every
// epoch is trained on once, and the trace confirms each change as a segment.
func TestLiveKnobs(t *testing.T) {
	d := stripes{n: 500}
	k := train.DefaultKnobs()
	k.Loader.BatchSize = 16
	r := onCPU(t, d, k, 6)
	changes := [][]knob.Setting{
		{{Name: "num_workers", Value: "3"}},
		{{Name: "batch_size", Value: "50"}},
		{{Name: "device_transforms", Value: "on"}, {Name: "pin_memory", Value: "on"}},
		{{Name: "num_workers", Value: "1"}, {Name: "in_order", Value: "off"}},
		{{Name: "batch_size", Value: "7"}, {Name: "device_transforms", Value: "off"}},
		{{Name: "num_workers", Value: "0"}},
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, c := range changes {
			time.Sleep(30 * time.Millisecond)
			if err := r.engine.Set(c); err != nil {
				t.Error(err)
			}
		}
	}()
	s := r.run(t, context.Background())
	<-done
	checkSteps(t, s)
	per := map[int32]int{}
	for _, st := range s.Recent {
		per[st.Epoch] += int(st.Samples)
	}
	for e, n := range per {
		if n != d.n {
			t.Errorf("epoch %d trained on %d of %d samples", e, n, d.n)
		}
	}
	if len(per) != 6 {
		t.Errorf("%d epochs, want 6", len(per))
	}
	if len(s.Segments) < 2 {
		t.Fatalf("%d segments: no change was confirmed", len(s.Segments))
	}
	for i, seg := range s.Segments[1:] {
		if seg.Start < s.Segments[i].End {
			t.Errorf("segment %d starts before segment %d ends", i+1, i)
		}
	}
	checkSegments(t, s)
}

// TestAccumulation: two batches of 16 whose gradients make one step follow one
// batch of 32, as far as the order of sums allows, for a network without batch
// norm.
func TestAccumulation(t *testing.T) {
	loss := func(batch, accumulate int) float64 {
		k := train.DefaultKnobs()
		k.Loader.BatchSize, k.Accumulate, k.Loader.Shuffle = batch, accumulate, false
		r := onCPU(t, stripes{n: 128}, k, 6)
		s := r.run(t, context.Background())
		e := attribution.Epochs(s)
		return e[len(e)-1].Loss
	}
	one, two := loss(32, 1), loss(16, 2)
	if math.Abs(one-two) > 2e-3*one {
		t.Errorf("last epoch's loss is %v with batches of 32 and %v with two of 16", one, two)
	}
	if other := loss(16, 1); math.Abs(one-other) <= 2e-3*one {
		t.Errorf("batches of 16 without accumulation give the same loss %v: the test cannot fail", other)
	}
}

// TestEngineKnobsLive changes the engine's own knobs while it trains.
func TestEngineKnobsLive(t *testing.T) {
	k := train.DefaultKnobs()
	k.Loader.BatchSize = 16
	r := onCPU(t, stripes{n: 320}, k, 3)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.change(t,
			[]knob.Setting{{Name: "gradient_accumulation", Value: "4"}},
			[]knob.Setting{{Name: "checkpointing", Value: "on"}, {Name: "gradient_accumulation", Value: "2"}},
			[]knob.Setting{{Name: "checkpointing", Value: "off"}, {Name: "gradient_accumulation", Value: "1"}})
	}()
	s := r.run(t, context.Background())
	<-done
	checkSteps(t, s)
	if len(s.Segments) < 3 {
		t.Errorf("%d segments", len(s.Segments))
	}
	for _, st := range s.Recent {
		if math.IsNaN(float64(st.Loss)) {
			t.Fatalf("step %d has no loss", st.Index)
		}
	}
}

func TestSetRefuses(t *testing.T) {
	r := onCPU(t, stripes{n: 64}, train.DefaultKnobs(), 1)
	before := r.engine.Requested()
	for _, c := range [][]knob.Setting{
		{{Name: "num_workers", Value: "65"}},
		{{Name: "num_workers", Value: "2"}, {Name: "batch_size", Value: "0"}},
		{{Name: "precision", Value: "fp16"}},
		{{Name: "gradient_accumulation", Value: "65"}},
		{{Name: "checkpointing", Value: "maybe"}},
		{{Name: "nonsense", Value: "1"}},
		{{Name: "persistent_workers", Value: "on"}},
	} {
		if err := r.engine.Set(c); err == nil {
			t.Errorf("%v was taken", c)
		}
	}
	for i, k := range r.engine.Requested() {
		if k != before[i] {
			t.Errorf("%s is %s after a refusal, was %s", k.Name, k.Value, before[i].Value)
		}
	}
	r.run(t, context.Background())
}

// TestIneffectiveKnobs: a straggler that is none of the workers gives a warning when it is asked for. It
// warns again when it or the workers change, and not when another knob changes.
func TestIneffectiveKnobs(t *testing.T) {
	k := train.DefaultKnobs()
	k.Loader.BatchSize, k.Loader.NumWorkers = 16, 2
	k.Loader.Inject = loader.Inject{Straggler: 9, Delay: time.Millisecond}
	r := onCPU(t, stripes{n: 320}, k, 1000)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		r.change(t,
			[]knob.Setting{{Name: "gradient_accumulation", Value: "2"}}, // not its business
			[]knob.Setting{{Name: "num_workers", Value: "1"}},
			[]knob.Setting{{Name: "gradient_accumulation", Value: "1"}},
			[]knob.Setting{{Name: "inject_straggler", Value: "off"}},
			[]knob.Setting{{Name: "inject_straggler", Value: "9:1ms"}})
	}()
	s := r.run(t, ctx)
	<-done
	var told []string
	for _, n := range s.Notes {
		if n.Level == "warn" && strings.Contains(n.Text, "inject_straggler=9:1ms has no effect") {
			told = append(told, n.Text)
		}
	}
	if len(told) != 3 || !strings.Contains(told[0], "there are 2") || !strings.Contains(told[1], "there is 1") {
		t.Errorf("told %q", told)
	}
}

// TestDefaultsOn: on a GPU people train in 16 bits and replay graphs. Elsewhere the
// defaults are DefaultKnobs.
func TestDefaultsOn(t *testing.T) {
	types := []string{"fp32", "tf32", "fp16", "bf16"}
	for _, c := range []struct{ kind, mixed, precision, capture, autotune string }{
		{"cuda", "bf16", "bf16", "on", "on"}, {"cuda", "fp16", "fp16", "on", "on"}, {"cpu", "", "fp32", "off", "off"}, {"emu", "", "fp32", "off", "off"},
	} {
		k, plain := train.DefaultsOn(device.Info{Kind: c.kind, Types: types, Mixed: c.mixed}), train.DefaultKnobs()
		for name, want := range map[string]string{"precision": c.precision, "capture": c.capture, "autotune": c.autotune} {
			if got := knob.ValueOf(k.List(), name); got != want {
				t.Errorf("%s on %s: %s, want %s", name, c.kind, got, want)
			}
		}
		if k.Loader != plain.Loader {
			t.Errorf("%s: the loader's knobs are not PyTorch's: %+v", c.kind, k.Loader)
		}
	}
}

// FuzzKnobs: a typed value is refused, or the knob shows it in a form that can be typed
// again.
func FuzzKnobs(f *testing.F) {
	for i, text := range []string{"0", "-1", "64", "on", "yes", "off", "5ms", "1h", "3:50ms", "64:10s", ":", "0:1h", "-1:5ms", "1:-5ms", "bf16", "every", "unset", "9999999999999999999", "1e3", " 1"} {
		f.Add(uint8(i), text)
		f.Add(uint8(len(train.KnobTable)-1-i%len(train.KnobTable)), text)
	}
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		row := &train.KnobTable[int(which)%len(train.KnobTable)]
		k := train.DefaultKnobs()
		k.Loader.NumWorkers = 2
		if err := k.Set(row.Name, text); err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("%s=%q: %v", row.Name, text, err)
			}
			return
		}
		again, value := k, row.Value(&k)
		if err := again.Set(row.Name, value); err != nil || row.Value(&again) != value {
			t.Fatalf("%s=%q is shown as %q, which is %+v, %v", row.Name, text, value, again, err)
		}
		_ = train.KnobTable.Check(k)
		train.KnobTable.Ineffective(k, train.KnobTable.Specs())
	})
}
