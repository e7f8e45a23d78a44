package nn_test

import (
	"fmt"
	"math"
	"testing"

	"dev.gpustall/engine/device"
)

// gratings makes pictures of ten classes. They are stripes in one of ten directions, at
// a random phase and in random colours, with noise as strong as the stripes.
func gratings(side, n, seed int) (x []float32, labels []int32) {
	r := random(seed)
	x, labels = make([]float32, n*side*side*3), make([]int32, n)
	for i := range labels {
		labels[i] = int32(10 * r.float64())
		sin, cos := math.Sincos(float64(labels[i]) * math.Pi / 10)
		phase := 2 * math.Pi * r.float64()
		colour := r.uniform(3, 0.5, 1)
		for y := range side {
			for z := range side {
				v := math.Sin(1.6*(cos*float64(z)+sin*float64(y)) + phase)
				for c := range 3 {
					noise := 2*r.float64() - 1
					x[((i*side+y)*side+z)*3+c] = float32(v*float64(colour[c]) + noise)
				}
			}
		}
	}
	return x, labels
}

// TestLearn trains on gratings and classifies samples it has not seen. Chance is
// 10 %.
func TestLearn(t *testing.T) {
	for _, c := range []struct {
		model string
		plain bool
		side  int
		batch int
		steps int
		want  float64
	}{{"cnn", false, 16, 64, 150, 0.6}, {"resnet18", false, 8, 32, 40, 0.3}, {"resnet18", true, 8, 32, 40, 0.2}} {
		t.Run(fmt.Sprintf("%s/no_batch_norm=%t", c.model, c.plain), func(t *testing.T) {
			if testing.Short() && c.model != "cnn" {
				t.Skip("resnet18 takes seconds")
			}
			dev := cpuDevice(t)
			if c.model != "cnn" && portable(dev) {
				t.Skip("resnet18 takes minutes on the portable kernels")
			}
			batch := c.batch
			g := golden{Model: c.model, In: [3]int{c.side, c.side, 3}, Classes: 10, Plain: c.plain}
			m := g.model(t)
			tr := newTrainer(t, dev, m, 1, batch, nil)
			s := m.Recipe(batch)
			s.Warmup = 5
			for i := range c.steps {
				tr.check(tr.st.SetHyper(tr.stream, s.At(i)))
				tr.load(gratings(c.side, batch, i))
				tr.run(tr.train)
			}
			hits, batches := 0, 10
			for i := range batches {
				tr.load(gratings(c.side, batch, 1_000_000+i))
				_, h := tr.run(tr.eval)
				hits += h
			}
			top1 := float64(hits) / float64(batches*batch)
			t.Logf("top-1 %.1f %% of %d unseen samples after %d steps", 100*top1, batches*batch, c.steps)
			if top1 < c.want {
				t.Errorf("top-1 is %.2f after %d steps, want %.2f at least", top1, c.steps, c.want)
			}
		})
	}
}

// TestStepAllocations: a step, its copies and a change of hyper-parameters
// allocate nothing.
func TestStepAllocations(t *testing.T) {
	g := golden{Model: "cnn", In: [3]int{16, 16, 3}, Classes: 10}
	dev := cpuDevice(t)
	if portable(dev) {
		t.Skip("the portable max-pool is the Go reference, which allocates closures")
	}
	tr := newTrainer(t, dev, g.model(t), 1, 8, nil)
	x, labels := g.batch(8, 0)
	samples, targets := asBytes(x), asBytes(labels)
	metrics := make([]float32, 2)
	out := asBytes(metrics)
	inX, inL := tr.input.Slice(0, len(samples)), tr.input.Slice(tr.cfg.LabelsOff, len(targets))
	step := func(errs ...error) {
		for _, err := range errs {
			tr.check(err)
		}
	}
	one := func() {
		step(tr.st.SetHyper(tr.stream, testHyper),
			tr.dev.CopyIn(tr.stream, inX, samples),
			tr.dev.CopyIn(tr.stream, inL, targets),
			tr.dev.Launch(tr.stream, tr.train),
			tr.dev.CopyOut(tr.stream, out, tr.plan.Metrics),
			tr.dev.Record(tr.stream, tr.done),
			tr.dev.Sync(tr.done))
	}
	for range 10 {
		one()
	}
	if n := testing.AllocsPerRun(50, one); n != 0 {
		t.Errorf("a step allocates %g times", n)
	}
}

var _ device.Device = (*refDevice)(nil)
