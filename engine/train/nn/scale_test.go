package nn_test

import (
	"testing"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/kernels"
)

// hyperOf returns where the plan's loss scale is kept.
func hyperOf(tr *trainer) device.Buffer {
	tr.t.Helper()
	for _, l := range tr.plan.Train {
		if _, ok := l.Op.(kernels.ScaleCheck); ok {
			return l.Bufs[1]
		}
	}
	tr.t.Fatal("the plan does not check its loss scale")
	return device.Buffer{}
}

// TestScaleGrowth: the step that doubles the loss scale, and the next one, move the
// weights as without the doubling.
func TestScaleGrowth(t *testing.T) {
	m, g := tiny(t)
	for _, k := range []int{1, 2} {
		var after [2][2]map[string][]float32 // without growth and with it; by step
		for i, good := range []float32{0, kernels.GrowthInterval - 1} {
			tr := newTrainer(t, newRefDevice(), m, 3, 4, func(c *nn.PlanConfig) { c.Type, c.Accumulate = kernels.F16, k })
			tr.check(tr.st.SetHyper(tr.stream, testHyper))
			buf := hyperOf(tr)
			hyper := tr.read(buf, kernels.HyperLen)
			hyper[kernels.HyperLossScale], hyper[kernels.HyperGrowth] = 1024, good
			tr.check(tr.dev.CopyIn(tr.stream, buf, asBytes(hyper)))
			for step := range after[i] {
				for part := range k {
					tr.load(g.batch(4, step*k+part))
					p := tr.train
					if part < k-1 {
						p = tr.part
					}
					tr.run(p)
				}
				after[i][step] = weightsOf(tr)
			}
			if got, want := tr.read(buf, kernels.HyperLen)[kernels.HyperLossScale], float32(1024*(1+i)); got != want {
				t.Errorf("%d batches a step: the loss scale is %g, want %g", k, got, want)
			}
		}
		if d := differ(after[1][0], after[0][0]); d != 0 {
			t.Errorf("%d batches a step: with growth the step moves the weights elsewhere, by %g", k, d)
		}
		// Twice the scale rounds the smallest fp16 gradients less.
		if d := differ(after[1][1], after[0][1]); d > 1e-4 {
			t.Errorf("%d batches a step: after growth the weights differ by %g", k, d)
		}
	}
}

// TestPrecisionDropsSum: gradients that were accumulated with one type's loss scale do
// not go into a step of another type, once the change is in force.
func TestPrecisionDropsSum(t *testing.T) {
	m, g := tiny(t)
	var after [2]map[string][]float32
	for i := range after {
		tr := newTrainer(t, newRefDevice(), m, 3, 4, func(c *nn.PlanConfig) { c.Type, c.Accumulate = kernels.F16, 2 })
		tr.check(tr.st.SetHyper(tr.stream, testHyper))
		if i == 1 {
			tr.load(g.batch(4, 9))
			tr.run(tr.part)
		}
		tr.rebuild(4, func(c *nn.PlanConfig) { c.Accumulate = 2 })
		tr.check(tr.st.DropSum())
		tr.load(g.batch(4, 0))
		tr.run(tr.part)
		tr.load(g.batch(4, 1))
		tr.run(tr.train)
		after[i] = weightsOf(tr)
	}
	if d := differ(after[1], after[0]); d != 0 {
		t.Errorf("a batch before the change moved the weights by %g", d)
	}
}

// TestTakenBack: a change of type and accumulation that is tried and taken back in
// the middle of a sum leaves no trace, in the sum or in the loss scale.
func TestTakenBack(t *testing.T) {
	m, g := tiny(t)
	half := func(c *nn.PlanConfig) { c.Type, c.Accumulate = kernels.F16, 2 }
	for name, other := range map[string]func(*nn.PlanConfig){
		"type":         func(c *nn.PlanConfig) { c.Accumulate = 2 },
		"accumulation": func(c *nn.PlanConfig) { c.Type, c.Accumulate = kernels.F16, 4 },
		"both":         func(*nn.PlanConfig) {},
	} {
		t.Run(name, func(t *testing.T) {
			var after [2]map[string][]float32
			for i := range after {
				tr := newTrainer(t, newRefDevice(), m, 3, 4, half)
				tr.check(tr.st.SetHyper(tr.stream, testHyper))
				buf := hyperOf(tr)
				hyper := tr.read(buf, kernels.HyperLen)
				hyper[kernels.HyperLossScale] = 1024
				tr.check(tr.dev.CopyIn(tr.stream, buf, asBytes(hyper)))
				tr.load(g.batch(4, 0))
				tr.run(tr.part)
				if i == 1 {
					tr.rebuild(4, other)
					tr.rebuild(4, half)
				}
				tr.load(g.batch(4, 1))
				tr.run(tr.train)
				after[i] = weightsOf(tr)
			}
			if d := differ(after[1], after[0]); d != 0 {
				t.Errorf("the weights differ by %g", d)
			}
		})
	}
}
