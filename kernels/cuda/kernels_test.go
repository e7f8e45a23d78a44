package cuda

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"dev.gpustall/kernels"
	"dev.gpustall/kernels/verify"
)

// Every CUDA kernel, emulated, against its operation's reference: all variants,
// odd shapes, both lane orders.

// A small GPU, so that loops over the grid turn and depths are split.
var testTargets = []Target{{SM: 90, Processors: 3}, {SM: 75, Processors: 7}, {SM: 70, Processors: 132}}

// Shapes that no tile divides; channels for 16-byte loads, 8-byte loads, neither.
var testConvs = []kernels.Conv{
	{N: 2, H: 9, W: 7, C: 16, K: 24, R: 3, S: 3, Stride: 1, Pad: 1},
	{N: 3, H: 8, W: 9, C: 8, K: 72, R: 3, S: 3, Stride: 2, Pad: 1},
	{N: 2, H: 7, W: 5, C: 136, K: 8, R: 1, S: 1, Stride: 2},
	{N: 1, H: 11, W: 13, C: 8, K: 16, R: 7, S: 7, Stride: 2, Pad: 3},
	{N: 2, H: 7, W: 8, C: 24, K: 264, R: 2, S: 3, Stride: 3},
	{N: 9, H: 4, W: 4, C: 40, K: 32, R: 3, S: 3, Stride: 1, Pad: 1},
	{N: 2, H: 6, W: 5, C: 12, K: 20, R: 3, S: 2, Stride: 1, Pad: 1},
	{N: 2, H: 9, W: 9, C: 3, K: 5, R: 3, S: 3, Stride: 2, Pad: 1},
	{N: 1, H: 1, W: 1, C: 1, K: 1, R: 1, S: 1, Stride: 1},
}

var floatTypes = []kernels.Type{kernels.F32, kernels.TF32, kernels.F16, kernels.BF16}

func TestConvolution(t *testing.T) {
	e := verify.NewEmulator(t)
	shapes := testConvs
	if testing.Short() {
		shapes = shapes[:2]
	}
	for i, g := range shapes {
		for _, typ := range floatTypes {
			odd := i%2 == 1
			checkEmulated(t, e, kernels.ConvForward{Conv: g, Type: typ, Bias: odd, ReLU: i%3 == 0})
			checkEmulated(t, e, kernels.ConvBackwardData{Conv: g, Type: typ, Accumulate: odd})
			checkEmulated(t, e, kernels.ConvBackwardWeight{Conv: g, Type: typ, Bias: odd})
		}
	}
	if n := e.BankConflicts(); n != 0 {
		t.Errorf("ldmatrix met %d bank conflicts", n)
	}
}

func TestBatchNorm(t *testing.T) {
	e := verify.NewEmulator(t)
	for i, s := range [][2]int{{1, 8}, {37, 16}, {300, 72}, {50, 5}, {7, 33}, {1000, 136}} {
		for _, typ := range floatTypes {
			relu, residual := i%2 == 0, i%3 != 0
			for _, train := range []bool{false, true} {
				checkEmulated(t, e, kernels.BatchNormForward{Rows: s[0], C: s[1], Type: typ, Eps: 1e-5, Momentum: 0.1, Train: train, ReLU: relu, Residual: residual})
			}
			op := kernels.BatchNormBackward{Rows: s[0], C: s[1], Type: typ, ReLU: relu, Residual: residual}
			checkEmulated(t, e, op)
			checkEmulated(t, e, op, 6, 0) // dx is dy
		}
	}
}

func TestPooling(t *testing.T) {
	e := verify.NewEmulator(t)
	for _, p := range []kernels.MaxPool{
		{N: 2, H: 8, W: 6, C: 16, Size: 2, Stride: 2},
		{N: 1, H: 7, W: 9, C: 8, Size: 3, Stride: 2, Pad: 1},
		{N: 3, H: 5, W: 5, C: 3, Size: 3, Stride: 1},
		{N: 1, H: 9, W: 9, C: 5, Size: 2, Stride: 3},
		{N: 2, H: 4, W: 6, C: 8, Size: 2, Stride: 2, T: 5, SizeT: 2, StrideT: 2},
		{N: 1, H: 5, W: 5, C: 3, Size: 3, Stride: 1, Pad: 1, T: 4, SizeT: 3, StrideT: 1},
	} {
		for _, typ := range floatTypes {
			p.Type = typ
			checkEmulated(t, e, p)
			checkEmulated(t, e, kernels.MaxPoolBackward{MaxPool: p})
			a := kernels.AvgPool{N: p.N, H: p.H, W: p.W, C: p.C, Type: typ}
			checkEmulated(t, e, a)
			f := kernels.StackFrames{N: p.N, T: p.H, Pixels: p.W, C: p.C, Taps: 3, Pad: 1, Type: typ}
			checkEmulated(t, e, f)
			checkEmulated(t, e, kernels.StackFramesBackward{StackFrames: f})
			checkEmulated(t, e, kernels.AvgPoolBackward{AvgPool: a})
		}
	}
}

func TestHead(t *testing.T) {
	e := verify.NewEmulator(t)
	for _, s := range [][3]int{{1, 1, 1}, {5, 512, 10}, {33, 40, 3}, {7, 67, 100}, {70, 264, 9}} {
		for _, typ := range floatTypes {
			l := kernels.Linear{N: s[0], In: s[1], Out: s[2], Type: typ}
			checkEmulated(t, e, l)
			checkEmulated(t, e, kernels.LinearBackward{Linear: l})
		}
		checkEmulated(t, e, kernels.SoftmaxXent{N: s[0], C: s[2]})
		checkEmulated(t, e, kernels.SoftmaxXent{N: s[1], C: s[2], Smoothing: 0.1})
	}
}

func TestElementwise(t *testing.T) {
	e := verify.NewEmulator(t)
	for _, n := range []int{1, 4, 7, 64, 1003, 30001} {
		for _, typ := range floatTypes {
			checkEmulated(t, e, kernels.Add{N: n, Type: typ})
			checkEmulated(t, e, kernels.Add{N: n, Type: typ, ReLU: true}, 2, 1)
			checkEmulated(t, e, kernels.ReLUBackward{N: n, Type: typ})
			checkEmulated(t, e, kernels.ReLUBackward{N: n, Type: typ}, 2, 0)
			checkEmulated(t, e, kernels.Cast{N: n, Type: typ})
			checkEmulated(t, e, kernels.Dropout{N: n, Rate: 0.3, Layer: 1, Type: typ})
			checkEmulated(t, e, kernels.Dropout{N: n, Rate: 0.3, Type: typ}, 2, 0)
			for _, rule := range kernels.Rules() {
				checkEmulated(t, e, kernels.Optimizer{Rule: rule, N: n, Exempt: n / 3, Copy: typ})
			}
		}
		checkEmulated(t, e, kernels.Zero{N: n})
		checkEmulated(t, e, kernels.NextNoise{})
		checkEmulated(t, e, kernels.ScaleCheck{N: n})
	}
	for _, c := range [][2]int{{3, 3}, {3, 4}, {3, 8}, {1, 16}, {4, 6}} {
		for _, typ := range floatTypes {
			checkEmulated(t, e, kernels.PadChannels{Rows: 101, C: c[0], CPad: c[1], Type: typ})
			checkEmulated(t, e, kernels.Augment{N: 3, H: 9, W: 7, C: c[0], CPad: c[1], Type: typ,
				Mean: [4]float32{0.49, 0.48, 0.45, 0.5}, Std: [4]float32{0.2, 0.19, 0.21, 0.25}})
		}
	}
}

// TF32 products must round their operands to 10 bits of mantissa, not cut them:
// the mean error over many products would show.
func TestTF32Rounds(t *testing.T) {
	e := verify.NewEmulator(t)
	g := kernels.Conv{N: 1, H: 8, W: 8, C: 64, K: 64, R: 1, S: 1, Stride: 1}
	op := kernels.ConvForward{Conv: g, Type: kernels.TF32}
	r := rand.New(rand.NewPCG(5, 6))
	bufs := allocate(op)
	for i := range 2 {
		for j := range kernels.Floats(bufs[i]) {
			kernels.Floats(bufs[i])[j] = 1 + r.Float32()
		}
	}
	want := clone(bufs)
	op.Reference(want)
	plan, err := NewPlan(op, testTargets[0], "")
	if err != nil {
		t.Fatal(err)
	}
	emulate(e, op, plan, bufs, identity(len(bufs)), false)
	var bias float64
	for i, v := range kernels.Floats(bufs[2]) {
		bias += (float64(v)/float64(kernels.Floats(want[2])[i]) - 1) / float64(g.OutLen())
	}
	// Rounding leaves about 2^-12 / sqrt(64*2) an output and less in the mean;
	// cutting would leave 2^-11.
	if math.Abs(bias) > 0x1p-14 {
		t.Errorf("outputs are off by %.2g in the mean", bias)
	}
}

// Gradients that are not finite are seen wherever they lie, and the scale grows
// after enough good steps.
func TestScaleCheck(t *testing.T) {
	e := verify.NewEmulator(t)
	const n = 4099
	op := kernels.ScaleCheck{N: n}
	plan, err := NewPlan(op, testTargets[0], "")
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{-1, 0, 5, 2048, n - 1} {
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			bufs := allocate(op)
			if at >= 0 {
				kernels.Floats(bufs[0])[at] = float32(bad)
			}
			copy(kernels.Floats(bufs[1]), []float32{0, 0, 0, 64, 1, kernels.GrowthInterval - 1})
			want := clone(bufs)
			op.Reference(want)
			emulate(e, op, plan, bufs, identity(2), at == 5)
			for i, v := range kernels.Floats(bufs[1]) {
				if v != kernels.Floats(want[1])[i] {
					t.Errorf("%g at %d: hyper-parameter %d is %g, want %g", bad, at, i, v, kernels.Floats(want[1])[i])
				}
			}
		}
	}
}

// A mean far from zero must not cost the variance its digits.
func TestBatchNormMean(t *testing.T) {
	e := verify.NewEmulator(t)
	op := kernels.BatchNormForward{Rows: 500, C: 8, Type: kernels.F32, Eps: 1e-5, Momentum: 0.1, Train: true}
	bufs := inputs(op, 3)
	for i := range kernels.Floats(bufs[0]) {
		kernels.Floats(bufs[0])[i] += 3000
	}
	want := clone(bufs)
	op.Reference(want)
	plan, err := NewPlan(op, testTargets[0], "")
	if err != nil {
		t.Fatal(err)
	}
	emulate(e, op, plan, bufs, identity(len(bufs)), false)
	for c, v := range kernels.Floats(bufs[7]) { // 1/sqrt(variance)
		if w := kernels.Floats(want[7])[c]; math.Abs(float64(v/w)-1) > 1e-5 {
			t.Errorf("channel %d: 1/sqrt(variance) is %g, want %g", c, v, w)
		}
	}
}

// checkEmulated compares op's kernels with its reference, lanes and blocks forwards,
// then backwards. alias: pairs of buffers that share memory, the second an input.
func checkEmulated(t *testing.T, e *verify.Emulator, op kernels.Op, alias ...int) {
	t.Helper()
	seen := map[string]bool{}
	for ti, target := range testTargets {
		for _, config := range Configs(op, target) {
			plan, err := NewPlan(op, target, config)
			if err != nil {
				t.Fatalf("%+v: %v", op, err)
			}
			if key := plan.Launches[0].Entry; ti > 0 && seen[key] && len(plan.Launches) == 1 {
				continue // the same kernel, ran already
			}
			seen[plan.Launches[0].Entry] = true
			checkPlan(t, e, op, plan, fmt.Sprintf("%s %+v sm_%d %s", op.Name(), op, target.SM, config), alias...)
		}
	}
}

// checkPlan compares a plan's results with op's reference.
func checkPlan(t *testing.T, e *verify.Emulator, op kernels.Op, plan Plan, name string, alias ...int) {
	t.Helper()
	bufs := inputs(op, 1)
	want := clone(bufs)
	op.Reference(want)
	shared := aliased(len(bufs), alias)
	got, again := clone(bufs), clone(bufs)
	emulate(e, op, plan, got, shared, false)
	compare(t, name, op, got, want)
	// Backwards: the same, to the bit.
	emulate(e, op, plan, again, shared, true)
	for i, a := range op.Args() {
		if a.Role != kernels.In && !bytes.Equal(got[i], again[i]) {
			t.Errorf("%s: %s depends on the order of lanes and blocks", name, a.Name)
		}
	}
}

// emulate computes op as the plan says. bufs hold the operation's buffers, alias says
// which other buffer's memory a buffer shares (itself otherwise). Outputs start
// poisoned. The results replace the contents of bufs.
func emulate(e *verify.Emulator, op kernels.Op, plan Plan, bufs [][]byte, alias []int, reverse bool) {
	e.Helper()
	args := op.Args()
	addr := make([]uint64, len(args))
	for i, a := range args {
		if alias[i] != i {
			addr[i] = addr[alias[i]]
			continue
		}
		addr[i] = e.Alloc(a.Size())
		if a.Role != kernels.Out {
			e.Write(addr[i], bufs[i])
		}
	}
	at := addresses{addr, e.Alloc(plan.Scratch), e.Alloc(CounterBytes)}
	e.Write(at.counters, make([]byte, CounterBytes))
	for _, l := range plan.Launches {
		e.Launch(at.launch(l, reverse))
	}
	for i, a := range args {
		if a.Role != kernels.In {
			e.Read(addr[i], bufs[i])
		}
	}
	left := make([]byte, CounterBytes)
	e.Read(at.counters, left)
	for i, b := range left {
		if b != 0 {
			e.Fatalf("%s leaves counter byte %d at %d", op.Name(), i, b)
		}
	}
	e.Free()
}
