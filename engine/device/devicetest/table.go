package devicetest

import (
	"math"
	"math/rand/v2"

	"dev.gpustall/kernels"
)

var cifarMean, cifarStd = [4]float32{0.4914, 0.4822, 0.4465, 0}, [4]float32{0.2023, 0.1994, 0.2010, 1}

// convs are the geometries of the table: ResNet-18's kinds of layer on small
// images, and odd sizes that no tile fits.
var convs = []struct {
	name string
	kernels.Conv
}{
	{"3x3", kernels.Conv{N: 2, H: 8, W: 8, C: 16, K: 32, R: 3, S: 3, Stride: 1, Pad: 1}},
	{"3x3 stride 2", kernels.Conv{N: 3, H: 9, W: 9, C: 16, K: 24, R: 3, S: 3, Stride: 2, Pad: 1}},
	{"1x1 stride 2", kernels.Conv{N: 2, H: 8, W: 8, C: 32, K: 64, R: 1, S: 1, Stride: 2}},
	{"stem", kernels.Conv{N: 2, H: 12, W: 10, C: 3, K: 64, R: 3, S: 3, Stride: 1, Pad: 1}},
	{"stem of 4 channels", kernels.Conv{N: 2, H: 12, W: 10, C: 4, K: 64, R: 3, S: 3, Stride: 1, Pad: 1}},
	{"stem of 8 channels", kernels.Conv{N: 2, H: 12, W: 10, C: 8, K: 64, R: 3, S: 3, Stride: 1, Pad: 1}},
	{"7x7 stride 2", kernels.Conv{N: 1, H: 17, W: 15, C: 4, K: 16, R: 7, S: 7, Stride: 2, Pad: 3}},
	{"5x3, no padding", kernels.Conv{N: 1, H: 9, W: 7, C: 8, K: 8, R: 5, S: 3, Stride: 1}},
	{"odd", kernels.Conv{N: 1, H: 7, W: 5, C: 5, K: 7, R: 3, S: 3, Stride: 1, Pad: 1}},
	{"one pixel", kernels.Conv{N: 5, H: 1, W: 1, C: 40, K: 72, R: 1, S: 1, Stride: 1}},
	{"wide", kernels.Conv{N: 2, H: 14, W: 14, C: 64, K: 64, R: 3, S: 3, Stride: 1, Pad: 1}},
	{"deep", kernels.Conv{N: 4, H: 4, W: 4, C: 160, K: 136, R: 3, S: 3, Stride: 1, Pad: 1}},
}

var types = []kernels.Type{kernels.F32, kernels.TF32, kernels.F16, kernels.BF16}

// Cases returns the table of operations.
func Cases() []Case {
	var cs cases
	for _, t := range types {
		cs.products(t)
		if t == kernels.TF32 {
			continue // the rest only moves float32
		}
		cs.add(batchNorms(t)...)
		cs.elementwise(t)
		cs.pooling(t)
		cs.inputs(t)
	}
	cs.transforms()
	cs.losses()
	cs.updates()
	return cs
}

// cases is the table while it is made.
type cases []Case

func (cs *cases) add(c ...Case) { *cs = append(*cs, c...) }

// of names a case on tensors of type t.
func of(t kernels.Type, name string) string { return t.String() + "/" + name }

// products adds convolutions and linear layers.
func (cs *cases) products(t kernels.Type) {
	for _, c := range convs {
		if c.name == "deep" || c.name == "wide" {
			cs.add(Case{Name: of(t, "conv_forward/"+c.name), Op: kernels.ConvForward{Conv: c.Conv, Type: t}, Slow: true})
		} else {
			cs.add(Case{Name: of(t, "conv_forward/"+c.name), Op: kernels.ConvForward{Conv: c.Conv, Type: t}})
		}
		cs.add(Case{Name: of(t, "conv_backward_data/"+c.name), Op: kernels.ConvBackwardData{Conv: c.Conv, Type: t}})
		cs.add(Case{Name: of(t, "conv_backward_weight/"+c.name), Op: kernels.ConvBackwardWeight{Conv: c.Conv, Type: t}})
	}
	small := convs[0].Conv
	cs.add(Case{Name: of(t, "conv_forward/bias relu"), Op: kernels.ConvForward{Conv: small, Type: t, Bias: true, ReLU: true}})
	cs.add(Case{Name: of(t, "conv_forward/odd bias"), Op: kernels.ConvForward{Conv: convs[8].Conv, Type: t, Bias: true}})
	cs.add(Case{Name: of(t, "conv_backward_data/accumulate"), Op: kernels.ConvBackwardData{Conv: small, Type: t, Accumulate: true}})
	cs.add(Case{Name: of(t, "conv_backward_weight/bias"), Op: kernels.ConvBackwardWeight{Conv: convs[8].Conv, Type: t, Bias: true}})
	for _, l := range []kernels.Linear{{N: 4, In: 64, Out: 10, Type: t}, {N: 7, In: 512, Out: 10, Type: t}, {N: 3, In: 13, Out: 5, Type: t}, {N: 33, In: 40, Out: 100, Type: t}} {
		cs.add(Case{Name: of(t, "linear"), Op: l})
		cs.add(Case{Name: of(t, "linear_backward"), Op: kernels.LinearBackward{Linear: l}})
	}
}

func (cs *cases) elementwise(t kernels.Type) {
	for _, n := range []int{1, 1000, 4099} {
		cs.add(Case{Name: of(t, "relu_backward"), Op: kernels.ReLUBackward{N: n, Type: t}})
		cs.add(Case{Name: of(t, "add"), Op: kernels.Add{N: n, Type: t}})
		cs.add(Case{Name: of(t, "add/relu"), Op: kernels.Add{N: n, Type: t, ReLU: true}})
		cs.add(Case{Name: of(t, "dropout"), Op: kernels.Dropout{N: n, Rate: 0.2, Layer: n % 3, Type: t}, Fill: noise(1)})
		cs.add(Case{Name: of(t, "cast"), Op: kernels.Cast{N: n, Type: t}})
		for _, rule := range kernels.Rules() {
			cs.add(Case{Name: of(t, rule.String()), Op: kernels.Optimizer{Rule: rule, N: n, Exempt: n / 12 * 4, Copy: t}})
		}
	}
	cs.add(Case{Name: of(t, "relu_backward/in place"), Op: kernels.ReLUBackward{N: 999, Type: t}, Alias: map[int]int{2: 0}})
	cs.add(Case{Name: of(t, "dropout/in place"), Op: kernels.Dropout{N: 999, Rate: 0.5, Type: t}, Fill: noise(1), Alias: map[int]int{2: 0}})
	cs.add(Case{Name: of(t, "add/in place"), Op: kernels.Add{N: 999, Type: t}, Alias: map[int]int{2: 0}})
	cs.add(Case{Name: of(t, "add/onto the second"), Op: kernels.Add{N: 999, Type: t}, Alias: map[int]int{2: 1}})
}

func (cs *cases) pooling(t kernels.Type) {
	for _, p := range pools(t) {
		cs.add(Case{Name: of(t, "maxpool"), Op: p})
		cs.add(Case{Name: of(t, "maxpool_backward"), Op: kernels.MaxPoolBackward{MaxPool: p}, Fill: poolIndices(p)})
	}
	for _, f := range stacks(t) {
		cs.add(Case{Name: of(t, "stack_frames"), Op: f})
		cs.add(Case{Name: of(t, "stack_frames_backward"), Op: kernels.StackFramesBackward{StackFrames: f}})
	}
	for _, p := range []kernels.AvgPool{{N: 3, H: 4, W: 4, C: 64, Type: t}, {N: 2, H: 7, W: 3, C: 5, Type: t}, {N: 1, H: 1, W: 1, C: 9, Type: t}} {
		cs.add(Case{Name: of(t, "avgpool"), Op: p})
		cs.add(Case{Name: of(t, "avgpool_backward"), Op: kernels.AvgPoolBackward{AvgPool: p}})
	}
}

// inputs adds the operations that turn pixels into the first layer's input.
func (cs *cases) inputs(t kernels.Type) {
	for _, cpad := range []int{3, 4, 8} {
		cs.add(Case{Name: of(t, "augment"), Op: kernels.Augment{N: 3, H: 8, W: 6, C: 3, CPad: cpad, Mean: cifarMean, Std: cifarStd, Type: t}, Fill: augmentations, Tol: 1e-4 + tolerance(t)})
		cs.add(Case{Name: of(t, "pad_channels"), Op: kernels.PadChannels{Rows: 77, C: 3, CPad: cpad, Type: t}})
	}
}

func (cs *cases) transforms() {
	for _, op := range kernels.ExampleTransforms() {
		cs.add(Case{Name: op.Name(), Op: op, Fill: func(rng *rand.Rand, bufs [][]byte) {
			kernels.Examples(op, rng, kernels.Ints(bufs[1]))
		}})
	}
}

func (cs *cases) losses() {
	for _, s := range []kernels.SoftmaxXent{{N: 5, C: 10}, {N: 128, C: 10}, {N: 3, C: 1000}, {N: 2, C: 33}, {N: 300, C: 2}} {
		cs.add(Case{Name: "softmax_xent", Op: s, Fill: labels(s.C)})
	}
	cs.add(Case{Name: "softmax_xent/smoothing", Op: kernels.SoftmaxXent{N: 77, C: 33, Smoothing: 0.1}, Fill: labels(33)})
	cs.add(Case{Name: "next_noise", Op: kernels.NextNoise{}, Fill: noise(0)})
	cs.add(Case{Name: "softmax_xent/large logits", Op: kernels.SoftmaxXent{N: 4, C: 10}, Fill: largeLogits})
}

// updates adds the operations of the optimizer's step.
func (cs *cases) updates() {
	for _, n := range []int{1, 5000} {
		cs.add(Case{Name: "zero", Op: kernels.Zero{N: n}})
		cs.add(Case{Name: "scale_check", Op: kernels.ScaleCheck{N: n}})
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			cs.add(Case{Name: "scale_check/overflow", Op: kernels.ScaleCheck{N: n}, Fill: func(_ *rand.Rand, bufs [][]byte) {
				kernels.Floats(bufs[0])[n*2/3] = float32(bad)
			}})
		}
	}
	cs.add(Case{Name: "scale_check/grow", Op: kernels.ScaleCheck{N: 100}, Fill: func(_ *rand.Rand, bufs [][]byte) {
		kernels.Floats(bufs[1])[kernels.HyperGrowth] = kernels.GrowthInterval - 1
	}})
	for _, rule := range kernels.Rules() {
		cs.add(Case{Name: rule.String() + "/skip", Op: kernels.Optimizer{Rule: rule, N: 500}, Fill: func(_ *rand.Rand, bufs [][]byte) {
			kernels.Floats(bufs[2+len(rule.Slots())])[kernels.HyperSkip] = 1
		}})
	}
}

func pools(t kernels.Type) []kernels.MaxPool {
	return []kernels.MaxPool{
		{N: 2, H: 8, W: 8, C: 16, Size: 2, Stride: 2, Type: t},
		{N: 1, H: 9, W: 7, C: 5, Size: 3, Stride: 2, Type: t},
		{N: 2, H: 8, W: 9, C: 8, Size: 3, Stride: 2, Pad: 1, Type: t},
		{N: 1, H: 5, W: 5, C: 3, Size: 3, Stride: 1, Type: t},
		{N: 2, H: 4, W: 6, C: 8, Size: 2, Stride: 2, T: 5, SizeT: 2, StrideT: 2, Type: t},
		{N: 2, H: 4, W: 4, C: 32, Size: 2, Stride: 2, T: 3, SizeT: 1, StrideT: 1, Type: t},
		{N: 2, H: 5, W: 5, C: 3, Size: 3, Stride: 1, Pad: 1, T: 4, SizeT: 3, StrideT: 1, Type: t},
	}
}

func stacks(t kernels.Type) []kernels.StackFrames {
	return []kernels.StackFrames{
		{N: 2, T: 4, Pixels: 15, C: 8, Taps: 3, Pad: 1, Type: t},
		{N: 1, T: 1, Pixels: 7, C: 3, Taps: 3, Pad: 1, Type: t},
		{N: 2, T: 5, Pixels: 6, C: 35, Taps: 2, Type: t},
		{N: 1, T: 3, Pixels: 4, C: 16, Taps: 5, Pad: 3, Type: t},
	}
}

func batchNorms(t kernels.Type) []Case {
	var cs []Case
	for _, s := range []struct{ rows, c int }{{128, 16}, {77, 5}, {2, 64}, {1000, 70}} {
		for _, f := range []struct {
			name           string
			relu, residual bool
		}{{"", false, false}, {"+relu", true, false}, {"+residual", false, true}, {"+residual+relu", true, true}} {
			fwd := kernels.BatchNormForward{Rows: s.rows, C: s.c, Type: t, Eps: 1e-5, Momentum: 0.1, Train: true, ReLU: f.relu, Residual: f.residual}
			cs = append(cs, Case{Name: t.String() + "/batchnorm_forward" + f.name, Op: fwd, Tol: max(1e-4, tolerance(t))})
			eval := fwd
			eval.Train = false
			cs = append(cs, Case{Name: t.String() + "/batchnorm_forward/eval" + f.name, Op: eval, Tol: max(1e-4, tolerance(t)), Fill: saved})
			bwd := kernels.BatchNormBackward{Rows: s.rows, C: s.c, Type: t, ReLU: f.relu, Residual: f.residual}
			c := Case{Name: t.String() + "/batchnorm_backward" + f.name, Op: bwd, Tol: max(1e-4, tolerance(t)), Fill: statistics(fwd)}
			cs = append(cs, c)
			c.Name, c.Alias = c.Name+"/in place", map[int]int{6: 0}
			cs = append(cs, c)
		}
	}
	return cs
}

// saved gives the saved statistics a value, which evaluation must not change.
func saved(rng *rand.Rand, bufs [][]byte) {
	for _, b := range bufs[6:8] {
		for i := range kernels.Floats(b) {
			kernels.Floats(b)[i] = rng.Float32()
		}
	}
}

// statistics sets y and the saved statistics to the results of the forward pass on x.
func statistics(fwd kernels.BatchNormForward) func(*rand.Rand, [][]byte) {
	return func(rng *rand.Rand, bufs [][]byte) {
		args := fwd.Args()
		f := Case{Op: fwd}.inputs(args)
		copy(f[0], bufs[1]) // x
		copy(f[2], bufs[3]) // gamma
		fwd.Reference(f)
		copy(bufs[2], f[1])
		copy(bufs[4], f[6])
		copy(bufs[5], f[7])
	}
}

func poolIndices(p kernels.MaxPool) func(*rand.Rand, [][]byte) {
	return func(rng *rand.Rand, bufs [][]byte) {
		f := Case{Op: p}.inputs(p.Args())
		p.Reference(f)
		copy(bufs[1], f[2])
	}
}

func augmentations(rng *rand.Rand, bufs [][]byte) {
	aug := kernels.Ints(bufs[1])
	for i := 0; i < len(aug); i += kernels.AugLen {
		aug[i+kernels.AugDY] = int32(rng.IntN(9)) - 4
		aug[i+kernels.AugDX] = int32(rng.IntN(9)) - 4
		aug[i+kernels.AugFlip] = int32(rng.IntN(2))
	}
}

// noise fills buffer i as after some batches.
func noise(i int) func(*rand.Rand, [][]byte) {
	return func(rng *rand.Rand, bufs [][]byte) {
		for j := range kernels.Ints(bufs[i]) {
			kernels.Ints(bufs[i])[j] = int32(rng.Uint32())
		}
	}
}

func labels(classes int) func(*rand.Rand, [][]byte) {
	return func(rng *rand.Rand, bufs [][]byte) {
		for i := range kernels.Ints(bufs[1]) {
			kernels.Ints(bufs[1])[i] = int32(rng.IntN(classes))
		}
	}
}

func largeLogits(rng *rand.Rand, bufs [][]byte) {
	labels(10)(rng, bufs)
	for i, z := 0, kernels.Floats(bufs[0]); i < len(z); i++ {
		z[i] = z[i]*50 + 1000 // exp overflows unless the maximum is taken off
	}
}
