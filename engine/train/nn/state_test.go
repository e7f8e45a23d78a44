package nn_test

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/kernels"
)

var testHyper = nn.Hyper{LR: 0.05, Momentum: 0.9, WeightDecay: 5e-4}

// tiny is a cnn small enough for the references.
func tiny(t testing.TB) (*nn.Model, golden) {
	t.Helper()
	g := golden{Model: "cnn", In: [3]int{8, 8, 3}, Classes: 10}
	return g.model(t), g
}

func weightsOf(tr *trainer) map[string][]float32 {
	tr.t.Helper()
	out := map[string][]float32{}
	for _, p := range append(tr.m.Params(), tr.m.Stats()...) {
		v, err := tr.st.Read(p.Name)
		tr.check(err)
		out[p.Name] = v
	}
	return out
}

// differ returns the largest relative error ||a-b|| / ||b|| over the tensors.
func differ(a, b map[string][]float32) (worst float64) {
	for name := range b {
		var d, n float64
		for i, x := range b[name] {
			d += math.Pow(float64(a[name][i]-x), 2)
			n += float64(x) * float64(x)
		}
		if d != 0 {
			worst = math.Max(worst, math.Sqrt(d/n))
		}
	}
	return worst
}

func TestInitialisation(t *testing.T) {
	dev := cpuDevice(t)
	m := newModel(t, "resnet18", nn.Shape{H: 32, W: 32, C: 3}, 10)
	read := func(seed int64) map[string][]float32 {
		st, err := nn.NewState(dev, m, seed)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Free()
		out := map[string][]float32{}
		for _, p := range append(m.Params(), m.Stats()...) {
			if out[p.Name], err = st.Read(p.Name); err != nil {
				t.Fatal(err)
			}
		}
		return out
	}
	a, b, c := read(1), read(1), read(2)
	if d := differ(a, b); d != 0 {
		t.Errorf("the same seed gives weights that differ by %g", d)
	}
	if d := differ(map[string][]float32{"": a["conv1.weight"]}, map[string][]float32{"": c["conv1.weight"]}); d < 1 {
		t.Errorf("seeds 1 and 2 give weights that differ by only %g", d)
	}
	for _, p := range m.Params() {
		v := a[p.Name]
		lo, hi, sum, sq := v[0], v[0], 0.0, 0.0
		for _, x := range v {
			lo, hi = min(lo, x), max(hi, x)
			sum += float64(x)
			sq += float64(x) * float64(x)
		}
		n := float64(len(v))
		switch {
		case len(p.Shape) > 1:
			bound := 1 / math.Sqrt(n/float64(p.Shape[0]))
			if float64(hi) > bound || float64(lo) < -bound || math.Abs(sq/n/(bound*bound/3)-1) > 0.1 || math.Abs(sum/n) > bound/10 {
				t.Errorf("%s: in [%g,%g], variance %g; want uniform in +-%g", p.Name, lo, hi, sq/n, bound)
			}
		case strings.Contains(p.Name, "bn") && (lo != hi || lo != map[string]float32{"weight": 1, "bias": 0}[p.Name[strings.LastIndex(p.Name, ".")+1:]]):
			t.Errorf("%s: in [%g,%g]; a batch norm starts at 1 and 0", p.Name, lo, hi)
		}
	}
}

// TestAccumulate: k batches of n accumulate to one of k*n, and a live change of
// k keeps the momentum. The cnn has no batch norm, so that they are equal.
func TestAccumulate(t *testing.T) {
	m, g := tiny(t)
	dev := cpuDevice(t)
	whole := newTrainer(t, dev, m, 3, 8, nil)
	parts := newTrainer(t, dev, m, 3, 8, nil)
	whole.check(whole.st.SetHyper(whole.stream, testHyper))
	parts.check(parts.st.SetHyper(parts.stream, testHyper))
	size := len(tinyBatch(g, 1))
	for i, k := range []int{1, 1, 4, 4, 2, 1} {
		x, labels := g.batch(8, i)
		whole.load(x, labels)
		want, _ := whole.run(whole.train)
		n := 8 / k
		parts.rebuild(n, func(c *nn.PlanConfig) { c.Accumulate = k })
		mean := 0.0
		for j := range k {
			parts.load(x[j*n*size:(j+1)*n*size], labels[j*n:(j+1)*n])
			p := parts.part
			if j == k-1 {
				p = parts.train
			}
			loss, _ := parts.run(p)
			mean += loss / float64(k)
		}
		if math.Abs(mean/want-1) > 1e-5 {
			t.Errorf("step %d, %d parts: loss %g, not %g", i, k, mean, want)
		}
		if d := differ(weightsOf(parts), weightsOf(whole)); !(d < 1e-5) {
			t.Errorf("step %d, %d parts: weights differ by %g", i, k, d)
		}
	}
}

func tinyBatch(g golden, n int) []float32 {
	x, _ := g.batch(n, 0)
	return x
}

// TestPrecision changes the compute type while it trains. The weights stay exactly the
// same, and 16-bit training follows float32's loss.
func TestPrecision(t *testing.T) {
	for _, typ := range []kernels.Type{kernels.TF32, kernels.F16, kernels.BF16} {
		t.Run(typ.String(), func(t *testing.T) {
			m, g := tiny(t)
			dev := newRefDevice()
			plain := newTrainer(t, dev, m, 3, 4, nil)
			mixed := newTrainer(t, dev, m, 3, 4, nil)
			plain.check(plain.st.SetHyper(plain.stream, testHyper))
			mixed.check(mixed.st.SetHyper(mixed.stream, testHyper))
			for i, now := range []kernels.Type{kernels.F32, typ, typ, typ, kernels.F32, typ} {
				before := weightsOf(mixed)
				mixed.rebuild(4, func(c *nn.PlanConfig) { c.Type = now })
				if d := differ(weightsOf(mixed), before); d != 0 {
					t.Fatalf("step %d: changing to %s moved the weights by %g", i, now, d)
				}
				x, labels := g.batch(4, i)
				plain.load(x, labels)
				mixed.load(x, labels)
				want, _ := plain.run(plain.train)
				got, _ := mixed.run(mixed.train)
				if !(math.Abs(got/want-1) < 2e-3) {
					t.Errorf("step %d in %s: loss %g, in float32 %g", i, now, got, want)
				}
				if i == 0 && got != want {
					t.Errorf("the same step gives %g and %g", got, want)
				}
				if d := differ(weightsOf(mixed), before); d == 0 {
					t.Errorf("step %d in %s left the weights as they were", i, now)
				}
			}
			// bfloat16 has 8 bits of precision: rounding of about 2^-9 in each value.
			if d := differ(weightsOf(mixed), weightsOf(plain)); !(d < 0.02) {
				t.Errorf("weights differ by %g", d)
			}
		})
	}
}

// TestOverflow: a gradient that overflows in fp16 skips the step and halves the
// loss scale, until it fits.
func TestOverflow(t *testing.T) {
	m, g := tiny(t)
	tr := newTrainer(t, newRefDevice(), m, 3, 4, func(c *nn.PlanConfig) { c.Type = kernels.F16 })
	tr.check(tr.st.SetHyper(tr.stream, testHyper))
	fc, err := tr.st.Read("fc.weight")
	tr.check(err)
	for i := range fc {
		fc[i] *= 1000
	}
	tr.check(tr.st.Write("fc.weight", fc))
	tr.load(g.batch(4, 0))
	before := weightsOf(tr)
	tr.run(tr.train)
	if d := differ(weightsOf(tr), before); d != 0 {
		t.Fatalf("a step with overflowing gradients moved the weights by %g", d)
	}
	tr.load(g.batch(4, 1))
	for range 20 {
		if tr.run(tr.train); differ(weightsOf(tr), before) > 0 {
			return
		}
	}
	t.Error("no step was taken after the overflow")
}

// TestTransforms: pixels normalised by the device train as those normalised by
// the host.
func TestTransforms(t *testing.T) {
	m, g := tiny(t)
	mean, std := [4]float32{0.5, 0.4, 0.3}, [4]float32{0.2, 0.25, 0.3}
	for _, c := range []struct {
		typ kernels.Type
		tol float64
	}{{kernels.F32, 1e-6}, {kernels.F16, 1e-3}} {
		dev := newRefDevice()
		host := newTrainer(t, dev, m, 3, 4, func(p *nn.PlanConfig) { p.Type = c.typ })
		onDev := newTrainer(t, dev, m, 3, 4, func(p *nn.PlanConfig) {
			p.Type, p.DeviceTransforms, p.Mean, p.Std = c.typ, true, mean, std
		})
		r := random(9)
		pixels := make([]byte, 4*8*8*3)
		x := make([]float32, len(pixels))
		for i := range pixels {
			pixels[i] = byte(256 * r.float64())
			x[i] = (float32(pixels[i])/255 - mean[i%3]) / std[i%3]
		}
		_, labels := g.batch(4, 0)
		host.load(x, labels)
		aug := make([]int32, 4*kernels.AugLen)
		onDev.check(dev.CopyIn(onDev.stream, onDev.input, pixels))
		onDev.check(dev.CopyIn(onDev.stream, onDev.input.Slice(onDev.cfg.LabelsOff, 16), asBytes(labels)))
		onDev.check(dev.CopyIn(onDev.stream, onDev.input.Slice(onDev.cfg.AugOff, 4*len(aug)), asBytes(aug)))
		want, _ := host.run(host.train)
		got, _ := onDev.run(onDev.train)
		if !(math.Abs(got/want-1) < c.tol) {
			t.Errorf("%s: loss %g on device-transformed pixels, %g on the host's", c.typ, got, want)
		}
	}
}

// TestSharedActivations alternates the plans of a full and a short batch in the same
// memory. Plans with memory of their own must give the same, bit for bit.
func TestSharedActivations(t *testing.T) {
	m, g := tiny(t)
	dev := cpuDevice(t)
	full, short := nn.PlanConfig{Batch: 8}, nn.PlanConfig{Batch: 3}
	both := activations(t, dev, m, full, short)
	shared := newTrainer(t, dev, m, 5, 8, nil)
	alone := newTrainer(t, dev, m, 5, 8, nil)
	for _, tr := range []*trainer{shared, alone} {
		tr.check(tr.st.SetHyper(tr.stream, testHyper))
	}
	for i := range 6 {
		n := []int{8, 8, 3}[i%3]
		shared.rebuild(n, func(c *nn.PlanConfig) { c.Activations = both })
		alone.rebuild(n, nil)
		x, labels := g.batch(n, i)
		shared.load(x, labels)
		alone.load(x, labels)
		a, _ := shared.run(shared.train)
		b, _ := alone.run(alone.train)
		if a != b {
			t.Errorf("step %d: loss %g in shared activations, %g alone", i, a, b)
		}
	}
	if d := differ(weightsOf(shared), weightsOf(alone)); d != 0 {
		t.Errorf("weights differ by %g", d)
	}
}

// TestCheckpoint: computing the blocks' values twice changes nothing, the running
// statistics included.
func TestCheckpoint(t *testing.T) {
	for _, plain := range []bool{false, true} {
		t.Run("no_batch_norm="+strconv.FormatBool(plain), func(t *testing.T) {
			checkCheckpoint(t, golden{Model: "resnet18", In: [3]int{8, 8, 3}, Classes: 10, Plain: plain})
		})
	}
}

func checkCheckpoint(t *testing.T, g golden) {
	dev := cpuDevice(t)
	m := g.model(t)
	plain := newTrainer(t, dev, m, 5, 4, nil)
	again := newTrainer(t, dev, m, 5, 4, func(c *nn.PlanConfig) { c.Checkpoint = true })
	for i := range 3 {
		var losses [2]float64
		for j, tr := range []*trainer{plain, again} {
			tr.check(tr.st.SetHyper(tr.stream, nn.Hyper{LR: 0.01, Momentum: 0.9}))
			tr.load(g.batch(4, i))
			losses[j], _ = tr.run(tr.train)
		}
		if losses[0] != losses[1] {
			t.Errorf("step %d: loss %g with checkpoints, %g without", i, losses[1], losses[0])
		}
	}
	if d := differ(weightsOf(again), weightsOf(plain)); d != 0 {
		t.Errorf("weights and statistics differ by %g", d)
	}
}

// TestDropout: dropout follows the seed and the batch, also for accumulated batches. An
// evaluation has no dropout. Smoothing raises only the training's loss.
func TestDropout(t *testing.T) {
	m, g := tiny(t)
	losses := func(seed int64, dropout, smoothing float32) (train, eval []float64) {
		tr := newTrainer(t, cpuDevice(t), m, 5, 4, func(c *nn.PlanConfig) {
			c.Dropout, c.Smoothing, c.Accumulate = dropout, smoothing, 2
		})
		tr.check(tr.st.Seed(seed))
		tr.check(tr.st.SetHyper(tr.stream, nn.Hyper{})) // the weights stay
		tr.load(g.batch(4, 0))
		for _, p := range []device.Program{tr.part, tr.train, tr.part} {
			loss, _ := tr.run(p)
			train = append(train, loss)
			loss, _ = tr.run(tr.eval)
			eval = append(eval, loss)
		}
		return train, eval
	}
	plain, clean := losses(1, 0, 0)
	dropped, eval := losses(1, 0.5, 0)
	again, _ := losses(1, 0.5, 0)
	other, _ := losses(2, 0.5, 0)
	smooth, smoothEval := losses(1, 0, 0.2)
	if !slices.Equal(clean, eval) || !slices.Equal(clean, smoothEval) || clean[0] != clean[2] {
		t.Errorf("evaluations differ: %v, with dropout %v, with smoothing %v", clean, eval, smoothEval)
	}
	if !slices.Equal(dropped, again) {
		t.Errorf("the same seed gives %v, then %v", dropped, again)
	}
	seen := append(slices.Clone(dropped), plain[0], other[0])
	slices.Sort(seen)
	if len(slices.Compact(seen)) != 5 {
		t.Errorf("losses repeat: %v with seed 1, %v with seed 2, %v without dropout", dropped, other, plain[0])
	}
	if smooth[0] == plain[0] {
		t.Errorf("label smoothing leaves the loss at %g", plain[0])
	}
}

// TestSetHyper enqueues many changes without waiting; the last one counts.
func TestSetHyper(t *testing.T) {
	m, g := tiny(t)
	tr := newTrainer(t, cpuDevice(t), m, 5, 4, nil)
	tr.load(g.batch(4, 0))
	for i := range 40 {
		tr.check(tr.st.SetHyper(tr.stream, nn.Hyper{LR: float64(i)}))
	}
	tr.check(tr.st.SetHyper(tr.stream, nn.Hyper{}))
	before := weightsOf(tr)
	tr.run(tr.train)
	if d := differ(weightsOf(tr), before); d != 0 {
		t.Errorf("a learning rate of 0 moved the weights by %g", d)
	}
	tr.check(tr.st.SetHyper(tr.stream, nn.Hyper{LR: 0.1}))
	tr.run(tr.train)
	grad, err := tr.st.ReadGrad("fc.bias")
	tr.check(err)
	after := weightsOf(tr)["fc.bias"]
	// Without momentum's coefficient and decay, one step is plain gradient descent.
	for i, w := range before["fc.bias"] {
		if want := w - 0.1*grad[i]; math.Abs(float64(after[i]-want)) > 1e-6 {
			t.Fatalf("fc.bias[%d] is %g, not %g", i, after[i], want)
		}
	}
}

func TestAccessErrors(t *testing.T) {
	m, _ := tiny(t)
	tr := newTrainer(t, newRefDevice(), m, 5, 4, nil)
	if _, err := tr.st.Read("conv9.weight"); err == nil || !strings.Contains(err.Error(), `"conv9.weight"`) {
		t.Errorf("reading an unknown name: %v", err)
	}
	if err := tr.st.Write("fc.bias", make([]float32, 3)); err == nil || !strings.Contains(err.Error(), "10 elements, not 3") {
		t.Errorf("writing the wrong length: %v", err)
	}
}
