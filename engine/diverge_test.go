package engine_test

import (
	"context"
	"strings"
	"testing"

	"dev.gpustall/engine"
	"dev.gpustall/engine/device/cpu"
	"dev.gpustall/engine/nn"
	"dev.gpustall/engine/trace"
	"dev.gpustall/loader/transform"
)

// A training that diverges says so once, at the step where the loss broke.
func TestDiverges(t *testing.T) {
	for _, tt := range []struct {
		lr   float64
		says int
	}{{1e30, 1}, {1e-3, 0}} {
		dev, err := cpu.Open(1)
		if err != nil {
			t.Fatal(err)
		}
		d := stripes{n: 256}
		k := engine.DefaultKnobs()
		k.Loader.BatchSize = 32
		s := newRig(t, dev, engine.Config{
			Model: cnn(t, d), Dataset: d, Transform: transform.CIFARTrain(), Seed: 1, Epochs: 1,
			Schedule: nn.Schedule{Hyper: nn.Hyper{LR: tt.lr, Momentum: 0.9}}, Knobs: k,
		}).run(t, context.Background())
		if n := warnings(s, "diverged"); n != tt.says {
			t.Errorf("learning rate %g: %d warnings, want %d: %v", tt.lr, n, tt.says, s.Notes)
		}
	}
}

func warnings(s *trace.Snapshot, text string) (n int) {
	for _, note := range s.Notes {
		if note.Level == "warn" && strings.Contains(note.Text, text) {
			n++
		}
	}
	return n
}
