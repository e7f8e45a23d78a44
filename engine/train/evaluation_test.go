package train_test

import (
	"context"
	"math"
	"testing"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/device/cpu"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train"
	"dev.gpustall/engine/train/prepared"
	"dev.gpustall/loader/transform"
)

// TestEvaluates: the test split is evaluated after each epoch and on request, with what
// was learnt. The time for that is in no epoch and in no share.
func TestEvaluates(t *testing.T) {
	d := stripes{n: 300}
	test := stripes{n: 70} // its last batch is a short one
	run := func(evaluate bool) *trace.Snapshot {
		k := train.DefaultKnobs()
		k.Loader.BatchSize = 32 // loaded inline: the fewest slots
		dev, err := cpu.Open(2)
		if err != nil {
			t.Fatal(err)
		}
		m := cnn(t, d)
		cfg := train.Config{
			Task: prepared.Task{Model: m, Seed: 1}, Dataset: d, Transform: transform.CIFARTrain(), Epochs: 6,
			Recipe: m.Recipe(32), Knobs: k,
		}
		if evaluate {
			plain, err := transform.CIFARTrain().Test()
			if err != nil {
				t.Fatal(err)
			}
			cfg.Test = train.Test{Dataset: test, Transform: plain, Epochs: true}
		}
		r := newRig(t, dev, cfg)
		if err := r.engine.Evaluate(); (err == nil) != evaluate {
			t.Errorf("an evaluation that is asked for: %v", err)
		}
		return r.run(t, context.Background())
	}
	without, s := run(false), run(true)
	checkSteps(t, s)
	if n := len(without.Evaluations()); n != 0 {
		t.Errorf("%d evaluations without a test split", n)
	}
	found := s.Evaluations()
	if n := len(s.Gauges[trace.GaugeTestBegun]); n != len(found) || s.Evaluating() {
		t.Errorf("%d evaluations begun, %d done; one goes on: %v", n, len(found), s.Evaluating())
	}
	if len(found) != 7 || found[0].Step != 0 || found[1].Step != 10 || found[6].Epoch != 5 || found[6].Samples != 70 {
		t.Fatalf("evaluations %+v", found)
	}
	if first, last := found[0], found[6]; !(last.Loss < first.Loss) || !(last.Top1 > 0.6) {
		t.Errorf("evaluated as %+v at first, as %+v at the end; four classes, chance is 0.25", first, last)
	}
	// Evaluating what was learnt does not change it.
	if a, b := without.Recent[len(without.Recent)-1].Loss, s.Recent[len(s.Recent)-1].Loss; a != b {
		t.Errorf("the last loss is %v with evaluations, %v without", b, a)
	}
	if e := attribution.Epochs(s); len(e) != 6 || e[0].Samples != 300 {
		t.Errorf("epochs %+v", e)
	}
	took, paused := int64(0), int64(0)
	for _, v := range found[1:6] { // those between two steps
		took += v.Took
	}
	for _, st := range s.Recent {
		paused += st.Stall[trace.CausePaused]
	}
	if paused < took/2 {
		t.Errorf("evaluations took %d ns, and %d ns count as paused", took, paused)
	}
}

// TestEvaluatesOnDevice: where the device runs the transforms, it runs the test split's
// own on the test samples, whatever it runs on the training samples.
func TestEvaluatesOnDevice(t *testing.T) {
	in := transform.Input{H: 32, W: 32, Constants: transform.CIFAR}
	compile := func(text string) *transform.Pipeline {
		p, err := transform.Compile(text, in)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, c := range []struct{ train, test string }{
		{"rrc(32)|colorjitter(0.4,0.4,0.4)|hflip|normalize", "normalize"},
		{"hflip|normalize", "resize((40,40))|centercrop(32)|normalize"},
	} {
		var found [2][]trace.Evaluation
		for i, on := range []bool{false, true} {
			dev, err := cpu.Open(2)
			if err != nil {
				t.Fatal(err)
			}
			d, k := stripes{n: 64}, train.DefaultKnobs()
			k.Loader.BatchSize, k.Loader.DeviceTransforms = 32, on
			m := cnn(t, d)
			r := newRig(t, dev, train.Config{
				Task: prepared.Task{Model: m, Seed: 1}, Dataset: d, Transform: compile(c.train), Epochs: 1, Recipe: m.Recipe(32), Knobs: k,
				Test: train.Test{Dataset: stripes{n: 40}, Transform: compile(c.test), Epochs: true},
			})
			found[i] = r.run(t, context.Background()).Evaluations()
		}
		if len(found[0]) != 1 || len(found[1]) != 1 {
			t.Fatalf("%+v: evaluations %+v", c, found)
		}
		if a, b := found[0][0], found[1][0]; math.Abs(a.Loss-b.Loss) > 1e-4 || a.Top1 != b.Top1 {
			t.Errorf("%+v: evaluated as %+v on the host, as %+v on the device", c, a, b)
		}
	}
}
