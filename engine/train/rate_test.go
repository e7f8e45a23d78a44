package train_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train"
)

// TestSchedule: a schedule that is fitted to the run has its last learning rate where
// the run ends. A run without end is refused such a schedule, at the start and later.
func TestSchedule(t *testing.T) {
	d := stripes{n: 64}
	k := train.DefaultKnobs()
	k.Loader.BatchSize, k.Accumulate = 16, 2
	set := func(name, value string) {
		t.Helper()
		if err := k.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	set("optimizer", "adam,lr=0.001")
	set("schedule", "onecycle,max_lr=0.01,div_factor=10,final_div_factor=10")
	s := onCPU(t, d, k, 2).run(t, context.Background())
	lrs := s.Gauges[trace.GaugeLearningRate]
	if n := len(lrs); n == 0 || math.Abs(lrs[n-1].V-0.0001) > 1e-9 {
		t.Errorf("four updates of onecycle end with the rates %v, want 0.0001", lrs)
	}
	set("schedule", "auto")
	r := onCPU(t, d, k, 0)
	if err := r.engine.Set([]knob.Setting{{Name: "schedule", Value: "cosine"}}); err == nil || !strings.HasPrefix(err.Error(), "set schedule=cosine: the run has no end") {
		t.Errorf("a run without end takes a cosine: %v", err)
	}
	if err := r.engine.Set([]knob.Setting{{Name: "schedule", Value: "cosine,steps=9"}}); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r.run(t, ctx)
}

// TestOptimizerLive: another optimizer takes over while it trains and rebuilds the plans,
// another learning rate rebuilds nothing, and the loss goes on from where it was.
func TestOptimizerLive(t *testing.T) {
	d := stripes{n: 512}
	k := train.DefaultKnobs()
	k.Loader.BatchSize = 32
	r := onCPU(t, d, k, 0)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		r.until(func(s *trace.Snapshot) bool { return s.Total.Steps > 8 })
		var changes [][]knob.Setting
		for _, value := range []string{"adam", "adam,lr=0.002", "adam,lr=0.002,weight_decay=0.1,decay=weights"} {
			changes = append(changes, []knob.Setting{{Name: "optimizer", Value: value}})
		}
		r.change(t, changes...)
		r.until(func(s *trace.Snapshot) bool { return s.Total.Steps > 40 })
	}()
	s := r.run(t, ctx)
	checkSegments(t, s)
	want := []string{"start", "optimizer auto -> adam", "optimizer adam -> adam,lr=0.002", "optimizer adam,lr=0.002 -> adam,lr=0.002,weight_decay=0.1,decay=weights"}
	for i, w := range want {
		if i >= len(s.Segments) || s.Segments[i].Reason != w {
			t.Fatalf("segment %d is not %q: %+v", i, w, s.Segments)
		}
	}
	first, last := s.Recent[0].Loss, s.Recent[len(s.Recent)-1].Loss
	if !(last < first) {
		t.Errorf("loss %v -> %v", first, last)
	}
}
