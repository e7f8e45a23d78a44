package train_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/engine/train/prepared"
	"dev.gpustall/loader/transform"

	"dev.gpustall/engine/device/cpu"
)

// kept trains from a point until step. It returns the losses, and the point at which it
// ended.
func kept(t *testing.T, from *train.Point, step, accumulate, workers, every int) ([]float32, *train.Point) {
	t.Helper()
	dev, err := cpu.Open(2)
	if err != nil {
		t.Fatal(err)
	}
	k := train.DefaultKnobs()
	k.Loader.BatchSize, k.Loader.NumWorkers, k.Accumulate, k.Dropout = 16, workers, accumulate, 0.1
	d := stripes{n: 72} // the last batch of an epoch has 8
	m := cnn(t, d)
	times := 0
	r := newRig(t, dev, train.Config{
		Task: prepared.Task{Model: m, Seed: 1}, Dataset: d, Transform: transform.CIFARTrain(), Steps: step,
		Recipe: m.Recipe(16), Knobs: k, From: from,
		Keeping: train.Keeping{Every: every, Keep: func(capture func() (*train.Point, error)) error {
			times++
			_, err := capture()
			return err
		}},
	})
	if err := r.engine.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	p, err := r.engine.Point()
	if err != nil {
		t.Fatal(err)
	}
	first := 0
	if from != nil {
		first = from.Step
	}
	if want := (step-1)/max(every, 1) - first/max(every, 1); every > 0 && times != want {
		t.Errorf("kept %d times on the way from %d to %d, want %d", times, first, step, want)
	}
	s := r.run(t, context.Background()) // ends at once
	var losses []float32
	for _, st := range s.Recent {
		if int(st.Index) != first+len(losses) {
			t.Errorf("step %d stands at %d", st.Index, first+len(losses))
		}
		losses = append(losses, st.Loss)
	}
	return losses, p
}

// TestGoesOn: a run that ended between two steps goes on to the losses and weights of one that did
// not end, bit for bit. It ends between two batches of an accumulation, in the middle of an epoch
// and at its end, with other numbers of workers. Keeping the run meanwhile changes nothing.
func TestGoesOn(t *testing.T) {
	for _, c := range []struct{ at, accumulate, workers int }{{7, 1, 0}, {5, 1, 2}, {8, 3, 2}} {
		t.Run(fmt.Sprintf("after %d steps, %d a step, %d workers", c.at, c.accumulate, c.workers), func(t *testing.T) {
			want, end := kept(t, nil, 13, c.accumulate, 1, 0)
			begun, point := kept(t, nil, c.at, c.accumulate, c.workers, 3)
			if point.Micro != c.at%c.accumulate {
				t.Errorf("%d batches wait for the optimizer after %d", point.Micro, c.at)
			}
			rest, got := kept(t, point, 13, c.accumulate, c.workers, 2)
			if losses := append(begun, rest...); !slices.Equal(losses, want) {
				t.Errorf("losses %v, want %v", losses, want)
			}
			same := func(a, b nn.Tensor) bool { return a.Name == b.Name && slices.Equal(a.Data, b.Data) }
			if !slices.EqualFunc(got.State.Weights, end.State.Weights, same) || !slices.EqualFunc(got.State.Optimizer, end.State.Optimizer, same) {
				t.Error("the state is another one in the end")
			}
		})
	}
}

// TestScheduleGoesOn: a schedule that began while the run trained goes on from there. Earlier
// updates count as they were made.
func TestScheduleGoesOn(t *testing.T) {
	d := stripes{n: 160}
	m := cnn(t, d)
	run := func(from *train.Point, steps int, settings, change []knob.Setting) (*train.Point, float64) {
		t.Helper()
		dev, err := cpu.Open(2)
		if err != nil {
			t.Fatal(err)
		}
		k := train.DefaultKnobs()
		k.Loader.BatchSize = 16
		for _, s := range append([]knob.Setting{{Name: "optimizer", Value: "sgd,lr=0.5"}}, settings...) {
			if err := k.Set(s.Name, s.Value); err != nil {
				t.Fatal(err)
			}
		}
		r := newRig(t, dev, train.Config{Task: prepared.Task{Model: m, Seed: 1}, Dataset: d, Transform: transform.CIFARTrain(), Steps: steps, Knobs: k, From: from})
		if change != nil {
			if err := r.engine.Set(change); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.engine.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		p, err := r.engine.Point()
		if err != nil {
			t.Fatal(err)
		}
		rates := r.run(t, context.Background()).Gauges[trace.GaugeLearningRate]
		return p, rates[len(rates)-1].V
	}
	p, _ := run(nil, 6, []knob.Setting{{Name: "gradient_accumulation", Value: "2"}}, nil)
	cosine := []knob.Setting{{Name: "schedule", Value: "cosine,steps=8"}}
	p, _ = run(p, 8, nil, cosine)
	if want := (train.Pace{Updates: 5, From: 3}); p.Pace != want {
		t.Errorf("the pace is %+v, want %+v", p.Pace, want)
	}
	if _, rate := run(p, 10, cosine, nil); math.Abs(rate-0.25*(1+math.Cos(math.Pi*3/8))) > 1e-9 {
		t.Errorf("the fourth update of the cosine has the rate %v", rate)
	}
}

// TestOtherAccumulation: gradients that wait for the optimizer are dropped if another
// number of them makes a step, and the log says so.
func TestOtherAccumulation(t *testing.T) {
	_, point := kept(t, nil, 5, 3, 0, 0)
	dev, err := cpu.Open(2)
	if err != nil {
		t.Fatal(err)
	}
	d := stripes{n: 72}
	m := cnn(t, d)
	k := train.DefaultKnobs()
	k.Loader.BatchSize = 16
	s := newRig(t, dev, train.Config{
		Task: prepared.Task{Model: m, Seed: 1}, Dataset: d, Transform: transform.CIFARTrain(), Steps: 7, Recipe: m.Recipe(16), Knobs: k, From: point,
	}).run(t, context.Background())
	if len(s.Recent) != 2 || !slices.ContainsFunc(s.Notes, func(n trace.Note) bool { return n.Level == "warn" }) {
		t.Errorf("%d steps, notes %v", len(s.Recent), s.Notes)
	}
}
