package kernels

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func random(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

func dot(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// checkGradient compares grad with central differences of f at x. The step is
// 2^-8, which float32 holds exactly, so the error is the curvature's and the
// rounding of the reference's stored results.
func checkGradient(t *testing.T, what string, x, grad []float32, f func() float64) {
	t.Helper()
	const step = 0x1p-8
	for i := range x {
		old := x[i]
		x[i] = old + step
		up, h1 := f(), float64(x[i])
		x[i] = old - step
		down, h0 := f(), float64(x[i])
		x[i] = old
		want := (up - down) / (h1 - h0)
		if diff := math.Abs(want - float64(grad[i])); diff > 2e-3*(1+math.Abs(want)) {
			t.Errorf("%s[%d]: gradient %g, differences give %g", what, i, grad[i], want)
		}
	}
}

var convs = []Conv{
	{N: 1, H: 1, W: 1, C: 1, K: 1, R: 1, S: 1, Stride: 1},
	{N: 2, H: 5, W: 4, C: 3, K: 2, R: 3, S: 3, Stride: 1, Pad: 1},
	{N: 1, H: 7, W: 6, C: 2, K: 3, R: 3, S: 3, Stride: 2, Pad: 1},
	{N: 2, H: 5, W: 5, C: 2, K: 3, R: 1, S: 1, Stride: 2},
	{N: 1, H: 6, W: 7, C: 1, K: 2, R: 2, S: 3, Stride: 1, Pad: 0},
}

func TestConvGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, g := range convs {
		x, w, bias, dy := random(r, g.InLen()), random(r, g.WeightLen()), random(r, g.K), random(r, g.OutLen())
		y := make([]float32, g.OutLen())
		loss := func() float64 {
			ConvForward{Conv: g, Bias: true}.Ref(x, w, y, bias)
			return dot(y, dy)
		}
		dx, dw, dbias := make([]float32, len(x)), make([]float32, len(w)), make([]float32, g.K)
		ConvBackwardData{Conv: g}.Ref(dy, w, dx)
		ConvBackwardWeight{Conv: g, Bias: true}.Ref(x, dy, dw, dbias)
		checkGradient(t, "dx", x, dx, loss)
		checkGradient(t, "dw", w, dw, loss)
		checkGradient(t, "dbias", bias, dbias, loss)

		twice := slices.Clone(dx)
		ConvBackwardData{Conv: g, Accumulate: true}.Ref(dy, w, twice)
		for i := range twice {
			if math.Abs(float64(twice[i]-2*dx[i])) > 1e-5*(1+math.Abs(float64(dx[i]))) {
				t.Fatalf("accumulate: %g, want %g", twice[i], 2*dx[i])
			}
		}
	}
}

func TestConvByHand(t *testing.T) {
	// A 3x3 image of 1..9 and a filter of ones, padding 1: sums of neighbours.
	x, w := []float32{1, 2, 3, 4, 5, 6, 7, 8, 9}, []float32{1, 1, 1, 1, 1, 1, 1, 1, 1}
	g := Conv{N: 1, H: 3, W: 3, C: 1, K: 1, R: 3, S: 3, Stride: 1, Pad: 1}
	y := make([]float32, 9)
	ConvForward{Conv: g}.Ref(x, w, y, nil)
	if want := []float32{12, 21, 16, 27, 45, 33, 24, 39, 28}; !slices.Equal(y, want) {
		t.Errorf("conv = %v, want %v", y, want)
	}
	ConvForward{Conv: g, Bias: true, ReLU: true}.Ref(x, w, y, []float32{-25})
	if want := []float32{0, 0, 0, 2, 20, 8, 0, 14, 3}; !slices.Equal(y, want) {
		t.Errorf("conv+bias+relu = %v, want %v", y, want)
	}
	g.Stride = 2
	ConvForward{Conv: g}.Ref(x, w, y[:4], nil)
	if want := []float32{12, 16, 24, 28}; !slices.Equal(y[:4], want) {
		t.Errorf("stride 2 = %v, want %v", y[:4], want)
	}
	// KRSC: output 1 takes only channel 1 of a 1x1 convolution.
	y = make([]float32, 2)
	ConvForward{Conv: Conv{N: 1, H: 1, W: 1, C: 3, K: 2, R: 1, S: 1, Stride: 1}}.Ref(
		[]float32{5, 6, 7}, []float32{1, 1, 1, 0, 2, 0}, y, nil)
	if want := []float32{18, 12}; !slices.Equal(y, want) {
		t.Errorf("1x1 = %v, want %v", y, want)
	}
}

func TestBatchNorm(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct{ relu, res bool }{{false, false}, {true, false}, {true, true}, {false, true}} {
		const rows, ch = 7, 3
		fw := BatchNormForward{Rows: rows, C: ch, Eps: 1e-5, Momentum: 0.1, Train: true, ReLU: c.relu, Residual: c.res}
		bw := BatchNormBackward{Rows: rows, C: ch, ReLU: c.relu, Residual: c.res}
		x, res, dy := random(r, rows*ch), random(r, rows*ch), random(r, rows*ch)
		gamma, beta := random(r, ch), random(r, ch)
		y := make([]float32, rows*ch)
		rm, rv, m, inv := make([]float32, ch), make([]float32, ch), make([]float32, ch), make([]float32, ch)
		// ReLU has no gradient at its corner: draw until no output is near it.
		loss := func() float64 {
			fw.Ref(x, y, gamma, beta, rm, rv, m, inv, res)
			return dot(y, dy)
		}
		away := false
		for !away {
			loss()
			away = true
			for i := range y {
				pre := (float64(x[i])-float64(m[i%ch]))*float64(inv[i%ch])*float64(gamma[i%ch]) + float64(beta[i%ch])
				if c.res {
					pre += float64(res[i])
				}
				if math.Abs(pre) < 0.05 {
					away = false
				}
			}
			if !away {
				x, res = random(r, rows*ch), random(r, rows*ch)
			}
		}
		dx, dres := make([]float32, len(x)), make([]float32, len(x))
		dgamma, dbeta := make([]float32, ch), make([]float32, ch)
		bw.Ref(dy, x, y, gamma, m, inv, dx, dgamma, dbeta, dres)
		checkGradient(t, "dx", x, dx, loss)
		checkGradient(t, "dgamma", gamma, dgamma, loss)
		checkGradient(t, "dbeta", beta, dbeta, loss)
		if c.res {
			checkGradient(t, "dres", res, dres, loss)
		}
	}
}

func TestBatchNormByHand(t *testing.T) {
	x := []float32{1, 3, 5, 7} // mean 4, biased variance 5, unbiased 20/3
	y, one, zero := make([]float32, 4), []float32{2}, []float32{1}
	rm, rv, m, inv := []float32{10}, []float32{1}, []float32{0}, []float32{0}
	op := BatchNormForward{Rows: 4, C: 1, Eps: 0, Momentum: 0.5, Train: true}
	op.Ref(x, y, one, zero, rm, rv, m, inv, nil)
	near(t, "mean", m[0], 4)
	near(t, "invstd", inv[0], 1/math.Sqrt(5))
	near(t, "running mean", rm[0], 7)
	near(t, "running var", rv[0], 0.5+10.0/3)
	near(t, "y", y[0], -3*2/math.Sqrt(5)+1)
	op.Train = false
	op.Ref(x, y, one, zero, []float32{1}, []float32{4}, nil, nil, nil)
	near(t, "evaluated", y[3], 7)
}

func near(t *testing.T, what string, got float32, want float64) {
	t.Helper()
	if math.Abs(float64(got)-want) > 1e-6*(1+math.Abs(want)) {
		t.Errorf("%s = %g, want %g", what, got, want)
	}
}

func TestPools(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, p := range []MaxPool{
		{N: 2, H: 4, W: 6, C: 3, Size: 2, Stride: 2},
		{N: 1, H: 5, W: 7, C: 2, Size: 2, Stride: 2},
		{N: 1, H: 5, W: 5, C: 2, Size: 3, Stride: 1}, // overlapping windows
		{N: 1, H: 5, W: 6, C: 2, Size: 3, Stride: 2, Pad: 1},
	} {
		x, dy := random(r, p.InLen()), random(r, p.OutLen())
		for i, v := range r.Perm(len(x)) { // distinct values, far apart
			x[i] = float32(v)
		}
		y, index, dx := make([]float32, p.OutLen()), make([]uint8, p.OutLen()), make([]float32, p.InLen())
		loss := func() float64 { p.Ref(x, y, index); return dot(y, dy) }
		loss()
		MaxPoolBackward{p}.Ref(dy, index, dx)
		checkGradient(t, "maxpool dx", x, dx, loss)

		a := AvgPool{N: p.N, H: p.H, W: p.W, C: p.C}
		x, dy = random(r, p.InLen()), random(r, p.N*p.C)
		AvgPoolBackward{a}.Ref(dy, dx)
		checkGradient(t, "avgpool dx", x, dx, func() float64 { a.Ref(x, y); return dot(y[:p.N*p.C], dy) })
	}
	y, index := make([]float32, 1), make([]uint8, 1)
	MaxPool{N: 1, H: 2, W: 2, C: 1, Size: 2, Stride: 2}.Ref([]float32{1, 4, 4, 2}, y, index)
	if y[0] != 4 || index[0] != 1 {
		t.Errorf("maxpool of a tie: %g at %d, want 4 at 1", y[0], index[0])
	}
}

func TestLinearAndXent(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	l := Linear{N: 3, In: 4, Out: 5}
	x, w, bias := random(r, 12), random(r, 20), random(r, 5)
	logits, dlogits := make([]float32, 15), make([]float32, 15)
	labels, metrics := []int32{4, 0, 2}, make([]float32, 2)
	hyper := make([]float32, HyperLen)
	hyper[HyperLossScale] = 8
	xent := SoftmaxXent{N: 3, C: 5}
	loss := func() float64 {
		l.Ref(x, w, logits, bias)
		xent.Ref(logits, labels, metrics, dlogits, hyper)
		return float64(metrics[0]) * 8
	}
	loss()
	dx, dw, dbias := make([]float32, 12), make([]float32, 20), make([]float32, 5)
	LinearBackward{l}.Ref(dlogits, x, w, dx, dw, dbias)
	checkGradient(t, "dx", x, slices.Clone(dx), loss)
	checkGradient(t, "dw", w, slices.Clone(dw), loss)
	checkGradient(t, "dbias", bias, slices.Clone(dbias), loss)

	xent = SoftmaxXent{N: 2, C: 2}
	hyper[HyperLossScale] = 1
	xent.Ref([]float32{0, 0, 1000, 0}, []int32{1, 0}, metrics, dlogits[:4], hyper)
	near(t, "loss", metrics[0], math.Ln2/2)
	near(t, "hits", metrics[1], 1) // the tie goes to class 0
	near(t, "dlogits", dlogits[0], 0.25)
	near(t, "dlogits", dlogits[1], -0.25)
	near(t, "dlogits", dlogits[2], 0)
}

// What PyTorch 2.15 gives in float64 for
// cross_entropy(z, tensor([1, 3]), label_smoothing=0.1) and its backward.
func TestLabelSmoothing(t *testing.T) {
	z := []float32{1, 2, 0.5, -1, 0, -2, 3, 1}
	want := []float64{0.09960390902, -0.1577699812, 0.0554944579, 0.0026716143, 0.0083862853, -0.0096733487, 0.4070122537, -0.4057251903}
	hyper, metrics, dz := make([]float32, HyperLen), make([]float32, 2), make([]float32, 8)
	hyper[HyperLossScale] = 1
	SoftmaxXent{N: 2, C: 4, Smoothing: 0.1}.Ref(z, []int32{1, 3}, metrics, dz, hyper)
	near(t, "loss", metrics[0], 1.4290986303512851)
	for i, w := range want {
		near(t, "dlogits", dz[i], w)
	}
}

// What is kept has the right share, whatever the step and the layer, and is drawn
// anew with each.
func TestDropout(t *testing.T) {
	const n, rate = 20000, 0.2
	x, first := slices.Repeat([]float32{1}, n), []float32(nil)
	for step := range 3 {
		for layer := range 2 {
			y := make([]float32, n)
			Dropout{N: n, Rate: rate, Layer: layer}.Ref(x, []int32{7, 0, int32(step), 0}, y)
			kept, same := 0, 0
			for i, v := range y {
				switch v {
				case 1.25:
					kept++
				case 0:
				default:
					t.Fatalf("1 became %g", v)
				}
				if first != nil && v == first[i] {
					same++
				}
			}
			// Five standard deviations: sqrt(n p (1-p)) is 57 for what is kept, 66 for what agrees.
			if math.Abs(float64(kept)-n*(1-rate)) > 285 {
				t.Errorf("step %d, layer %d: kept %d of %d", step, layer, kept, n)
			}
			if agree := n * (rate*rate + (1-rate)*(1-rate)); first != nil && math.Abs(float64(same)-agree) > 330 {
				t.Errorf("step %d, layer %d: %d of %d as in the first, by chance %.0f", step, layer, same, n, agree)
			}
			if first == nil {
				first = y
			}
		}
	}
}

// TestOptimizerSettings: gradients are divided by their loss scale and by the number of
// batches. The last elements are exempt from weight decay. A skipped update changes nothing.
// The rules' formulas are tested against PyTorch in engine/train/nn.
func TestOptimizerSettings(t *testing.T) {
	hyper := make([]float32, HyperLen)
	hyper[HyperLR], hyper[HyperMomentum], hyper[HyperWeightDecay] = 0.5, 0.5, 0.25
	hyper[HyperGradScale], hyper[HyperLossScale], hyper[HyperBatches] = 4, 8, 2 // the next step's loss scale does not matter
	w, m := []float32{8, 8}, []float32{2, 2}
	op := Optimizer{N: 2, Exempt: 1}
	for skip := range 2 {
		hyper[HyperSkip] = float32(skip)
		op.Ref(w, []float32{24, 24}, [][]float32{m}, hyper) // g = 3, +2 of decay; m = 1 + g
		if m[0] != 6 || w[0] != 5 || m[1] != 4 || w[1] != 6 {
			t.Errorf("skip %d: m = %g, w = %g, want 6, 4 and 5, 6", skip, m, w)
		}
	}
}

// TestCount: what is filled of Adam's averages is 1 - beta^step, to float32's precision
// from the first step on.
func TestCount(t *testing.T) {
	hyper := make([]float32, HyperLen)
	hyper[HyperMomentum], hyper[HyperFresh] = 0.9, 1-0.999
	for step := 1; step <= 5000; step++ {
		Adam.Count(hyper)
		for i, beta := range map[int]float64{HyperFilled1: 0.9, HyperFilled2: 0.999} {
			if want := 1 - math.Pow(beta, float64(step)); math.Abs(float64(hyper[i])/want-1) > 2e-6 {
				t.Fatalf("step %d: beta %g fills %g, want %g", step, beta, hyper[i], want)
			}
		}
	}
	if hyper[HyperStep] != 5000 {
		t.Errorf("%g steps", hyper[HyperStep])
	}
	Momentum.Count(hyper)
	if hyper[HyperStep] != 5000 {
		t.Error("momentum counts steps")
	}
}

func TestScaleCheck(t *testing.T) {
	hyper := make([]float32, HyperLen)
	hyper[HyperLossScale], hyper[HyperGrowth] = 64, GrowthInterval-1
	op := ScaleCheck{N: 2}
	op.Ref([]float32{1, 2}, hyper)
	if hyper[HyperLossScale] != 128 || hyper[HyperGradScale] != 64 || hyper[HyperGrowth] != 0 || hyper[HyperSkip] != 0 {
		t.Errorf("after the last good step: %v", hyper)
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		hyper[HyperLossScale], hyper[HyperSkip] = 64, 0
		op.Ref([]float32{1, float32(bad)}, hyper)
		if hyper[HyperLossScale] != 32 || hyper[HyperSkip] != 1 {
			t.Errorf("after %g: %v", bad, hyper)
		}
	}
	op.Ref([]float32{1, 2}, hyper)
	if hyper[HyperSkip] != 0 || hyper[HyperGrowth] != 1 || hyper[HyperGradScale] != 32 {
		t.Errorf("after a good step: %v", hyper)
	}
}

// A step that doubles the loss scale takes its own gradients in full.
func TestScaleGrowth(t *testing.T) {
	hyper := make([]float32, HyperLen)
	hyper[HyperLR], hyper[HyperLossScale], hyper[HyperGrowth], hyper[HyperBatches] = 1, 64, GrowthInterval-2, 1
	w, m := []float32{10}, []float32{0}
	for step, want := range []float32{9, 8, 7} { // the second doubles it
		grad := []float32{hyper[HyperLossScale]} // 1, scaled
		ScaleCheck{N: 1}.Ref(grad, hyper)
		Optimizer{N: 1}.Ref(w, grad, [][]float32{m}, hyper)
		if w[0] != want {
			t.Errorf("step %d: w = %g, want %g", step, w[0], want)
		}
	}
	if hyper[HyperLossScale] != 128 {
		t.Errorf("the loss scale is %g, want 128", hyper[HyperLossScale])
	}
}

func TestAugment(t *testing.T) {
	op := Augment{N: 1, H: 2, W: 2, C: 1, CPad: 2, Mean: [4]float32{0.2}, Std: [4]float32{0.5}}
	px := func(v float64) float32 { return float32((v/255 - float64(float32(0.2))) / 0.5) }
	pixels := []uint8{10, 20, 30, 40}
	pad := px(0)
	for _, c := range []struct {
		aug  []int32
		want []float32
	}{
		{[]int32{0, 0, 0, 0}, []float32{px(10), 0, px(20), 0, px(30), 0, px(40), 0}},
		{[]int32{0, 0, 1, 0}, []float32{px(20), 0, px(10), 0, px(40), 0, px(30), 0}},
		{[]int32{1, 0, 0, 0}, []float32{px(30), 0, px(40), 0, pad, 0, pad, 0}},
		{[]int32{0, -1, 1, 0}, []float32{px(10), 0, pad, 0, px(30), 0, pad, 0}},
	} {
		y := make([]float32, 8)
		op.Ref(pixels, c.aug, y)
		if !slices.Equal(y, c.want) {
			t.Errorf("aug %v = %v, want %v", c.aug, y, c.want)
		}
	}
}

func TestElementwise(t *testing.T) {
	y := make([]float32, 4)
	ReLUBackward{N: 3}.Ref([]float32{1, 2, 3}, []float32{0, 5, -1}, y)
	if !slices.Equal(y, []float32{0, 2, 0, 0}) {
		t.Errorf("relu backward = %v", y)
	}
	Add{N: 2}.Ref([]float32{1, 2}, []float32{3, 5}, y)
	if !slices.Equal(y, []float32{4, 7, 0, 0}) {
		t.Errorf("add = %v", y)
	}
	PadChannels{Rows: 2, C: 1, CPad: 2}.Ref([]float32{7, 8}, y)
	if !slices.Equal(y, []float32{7, 0, 8, 0}) {
		t.Errorf("pad = %v", y)
	}
}
