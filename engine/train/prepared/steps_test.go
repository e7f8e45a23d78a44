package prepared_test

import (
	"errors"
	"strings"
	"testing"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cpu"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/engine/train/prepared"
	"dev.gpustall/loader"
)

// limited is the cpu device with a limit to its memory and a count of what is captured.
type limited struct {
	device.Device
	memory   int64
	captured map[device.Program]bool
	freed    int
}

func (h *limited) Info() device.Info {
	info := h.Device.Info()
	info.Memory = h.memory
	return info
}

func (h *limited) Free(b device.Buffer) {
	h.freed++
	h.Device.Free(b)
}

func (h *limited) Capture(p device.Program, on bool) error {
	h.captured[p] = on
	return nil
}

func (h *limited) Release(p device.Program) {
	delete(h.captured, p)
	h.Device.Release(p)
}

type rig struct {
	*prepared.Steps
	dev       *limited
	knobs     prepared.Knobs
	quiesced  int
	cannotEnd error // what Quiesce returns
}

// open opens and warms plans for batches of a size; memory 0 is no limit.
func open(t *testing.T, batch int, memory int64) *rig {
	t.Helper()
	c, err := cpu.Open(2)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{dev: &limited{Device: c, memory: memory, captured: map[device.Program]bool{}}}
	m, err := nn.New("cnn", nn.Shape{H: 8, W: 8, C: 3}, 4)
	if err != nil {
		t.Fatal(err)
	}
	r.knobs = prepared.Knobs{Loader: loader.DefaultKnobs(), Accumulate: 1}
	r.knobs.Loader.BatchSize = batch
	r.Steps, err = prepared.Open(prepared.Config{
		Task: prepared.Task{Model: m, Seed: 1}, Device: r.dev, Recorder: trace.NewRecorder(trace.NewClock(), 0),
		Quiesce: func() error { r.quiesced++; return r.cannotEnd },
		Split:   prepared.Split{Dataset: loader.Info{Samples: 40, H: 8, W: 8, C: 3}},
	}, r.knobs)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Warm(r.knobs); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestWarm(t *testing.T) {
	r := open(t, 16, 0)
	for samples, want := range map[int]bool{16: true, 8: true, 40: false} { // batches of 16, 16 and 8
		if got := r.Find(prepared.Key{Samples: samples}) != nil; got != want {
			t.Errorf("a step of %d samples: %v, want %v", samples, got, want)
		}
	}
	if r.quiesced != 0 {
		t.Errorf("waited %d times for steps that there are not", r.quiesced)
	}
	p := r.Find(prepared.Key{Samples: 16})
	if p.Slot(0) == p.Slot(1) || p.Slot(0) != p.Slot(2) || p.Slot(0).Input == p.Slot(1).Input {
		t.Error("steps do not take turns on the input slots")
	}
}

// TestApplyChangesNothing: an impossible change leaves the plans in force usable. A
// change that does not fit does not even wait for the steps in flight.
func TestApplyChangesNothing(t *testing.T) {
	stuck := errors.New("the device hangs")
	room := open(t, 17, 0).Memory().Total()
	for name, c := range map[string]struct {
		knob     func(*prepared.Knobs)
		end      error
		quiesced int
		says     string
	}{
		"too large":        {func(k *prepared.Knobs) { k.Loader.BatchSize = 40 }, nil, 0, "lower batch_size to "},
		"cannot wait":      {func(k *prepared.Knobs) { k.Loader.BatchSize = 17 }, stuck, 1, "hangs"},
		"cannot recapture": {func(k *prepared.Knobs) { k.Capture = true }, stuck, 1, "hangs"},
	} {
		t.Run(name, func(t *testing.T) {
			r := open(t, 16, room)
			was, freed := r.Find(prepared.Key{Samples: 16}), r.dev.freed
			k := r.knobs
			c.knob(&k)
			r.cannotEnd = c.end
			err := r.Apply(k)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%v, want %q", err, c.says)
			}
			if err := r.Revert(); err != nil {
				t.Error(err)
			}
			if r.Find(prepared.Key{Samples: 16}) != was || r.dev.freed != freed || r.quiesced != c.quiesced || r.Broken() {
				t.Errorf("%d buffers freed, waited %d times, broken %v", r.dev.freed-freed, r.quiesced, r.Broken())
			}
		})
	}
}

// TestApply: plans follow precision and the like; Revert goes back.
func TestApply(t *testing.T) {
	r := open(t, 16, 0)
	k := r.knobs
	k.Accumulate, k.Capture = 2, true
	if err := r.Apply(k); err != nil {
		t.Fatal(err)
	}
	s := r.Find(prepared.Key{Samples: 16}).Slot(0)
	if s.Program(true) == s.Program(false) || r.quiesced == 0 || len(r.dev.captured) != 2*prepared.Slots {
		t.Errorf("waited %d times, captured %v", r.quiesced, r.dev.captured)
	}
	for p, on := range r.dev.captured {
		if !on {
			t.Errorf("program %d is not captured", p)
		}
	}
	if err := r.Revert(); err != nil {
		t.Fatal(err)
	}
	if r.Find(prepared.Key{Samples: 16}) != nil {
		t.Error("the step of two accumulated batches is still there")
	}
	p, err := r.Build(prepared.Key{Samples: 16})
	if err != nil {
		t.Fatal(err)
	}
	if s := p.Slot(0); s.Program(true) != s.Program(false) || r.dev.captured[s.Program(true).ID] {
		t.Errorf("after Revert: captured %v", r.dev.captured)
	}
}
