package train

import (
	"context"
	"testing"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cpu"
	"dev.gpustall/engine/device/emu"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/engine/train/ops"
	"dev.gpustall/engine/train/prepared"
	"dev.gpustall/loader"
	"dev.gpustall/loader/transform"
)

// grey is a data set without storage.
type grey struct{}

func (grey) Info() loader.Info {
	return loader.Info{Name: "grey", Samples: 1 << 20, H: 32, W: 32, C: 3, Classes: []string{"a", "b"}}
}

func (grey) Read(_ context.Context, s *loader.Sample) error {
	s.Label = int32(s.Index & 1)
	return nil
}

func (grey) Decode(s *loader.Sample) error {
	s.H, s.W, s.C = 32, 32, 3
	if cap(s.Pixels) < 32*32*3 {
		s.Pixels = make([]byte, 32*32*3)
	}
	s.Pixels = s.Pixels[:32*32*3]
	return nil
}

func (grey) Close() error { return nil }

// TestStepAllocates counts the allocations of whole steps, with those of the loader, the device and the other
// goroutines. In steady state there are none, even where every step's ops are timed. The collector is left
// out, because its session grows without end. Here the rings run full and drop.
func TestStepAllocates(t *testing.T) {
	for _, name := range []string{"cpu", "emu:h100"} {
		for _, workers := range []int{0, 2} {
			for _, timing := range []ops.Mode{ops.Sampled, ops.Every} {
				t.Run(name, func(t *testing.T) {
					e := stepper(t, name, workers)
					e.ops.Begin(timing)
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					step := func() {
						if err := e.trainStep(ctx); err != nil {
							t.Fatal(err)
						}
					}
					for range 20 {
						step()
					}
					if n := testing.AllocsPerRun(50, step); n != 0 {
						t.Errorf("%v allocations a step with %d workers, time_ops=%v", n, workers, timing)
					}
					if err := e.pipeline.finish(); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

func stepper(t *testing.T, name string, workers int) *Engine {
	t.Helper()
	var dev device.Device
	var err error
	if name == "cpu" {
		dev, err = cpu.Open(2)
	} else {
		var p emu.Preset
		p, err = emu.Find(name)
		dev = emu.New(p, emu.NewRealClock())
	}
	if err != nil {
		t.Fatal(err)
	}
	m, err := nn.New("cnn", nn.Shape{H: 32, W: 32, C: 3}, 2)
	if err != nil {
		t.Fatal(err)
	}
	k := DefaultKnobs()
	k.Loader.BatchSize, k.Loader.NumWorkers = 8, workers
	e, err := New(Config{
		Device: dev, Recorder: trace.NewRecorder(trace.NewClock(), 1<<10), Task: prepared.Task{Model: m},
		Dataset: grey{}, Transform: transform.CIFARTrain(), Knobs: k, Recipe: m.Recipe(8),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := e.pipeline.start(); err != nil {
		t.Fatal(err)
	}
	e.openSegment("start", trace.Prediction{})
	return e
}
