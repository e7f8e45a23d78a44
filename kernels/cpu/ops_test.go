package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"dev.gpustall/kernels"
)

// positive makes the arguments that are variances or deviations positive.
func positive(r *rand.Rand) func(string, []byte) bool {
	return func(name string, b []byte) bool {
		if name != "running var" && name != "saved invstd" {
			return false
		}
		for i, v := 0, kernels.Floats(b); i < len(v); i++ {
			v[i] = 0.5 + r.Float32()
		}
		return true
	}
}

func TestBatchNorm(t *testing.T) {
	eachVariant(t, func(t *testing.T, p *Pool) {
		r := rand.New(rand.NewPCG(2, 2))
		for _, s := range [][2]int{{1, 1}, {2, 3}, {31, 16}, {100, 5}, {257, 48}, {1000, 67}, {5000, 64}} {
			if raceEnabled && s[0] > 500 {
				continue
			}
			for bits := range 8 {
				relu, res, train := bits&1 != 0, bits&2 != 0, bits&4 != 0
				fw := kernels.BatchNormForward{Rows: s[0], C: s[1], Eps: 1e-5, Momentum: 0.1, Train: train, ReLU: relu, Residual: res}
				compare(t, p, fw, buffers(r, fw, positive(r)), 1e-5)
				bw := kernels.BatchNormBackward{Rows: s[0], C: s[1], ReLU: relu, Residual: res}
				compare(t, p, bw, buffers(r, bw, positive(r)), 1e-5)
			}
		}
	})
}

// A mean far above the deviation must not cost the variance its digits.
func TestBatchNormOffset(t *testing.T) {
	eachVariant(t, func(t *testing.T, p *Pool) {
		op := kernels.BatchNormForward{Rows: 4096, C: 20, Eps: 1e-5, Momentum: 0.1, Train: true}
		r := rand.New(rand.NewPCG(3, 3))
		bufs := buffers(r, op, positive(r))
		for i, x := 0, kernels.Floats(bufs[0]); i < len(x); i++ {
			x[i] = 1000 + float32(r.NormFloat64())
		}
		// x itself is rounded to 6e-5, the same for both; the mean to as much.
		compare(t, p, op, bufs, 5e-5)
	})
}

func TestElementwise(t *testing.T) {
	eachVariant(t, func(t *testing.T, p *Pool) {
		r := rand.New(rand.NewPCG(4, 4))
		hyper := func(name string, b []byte) bool {
			if name == "hyper" {
				copy(kernels.Floats(b), []float32{0.1, 0.9, 5e-4, 128, 0, 3, 64, 3, 1 - 0.9*0.9*0.9, 1 - 0.99*0.99*0.99, 2, 0.01, 1e-3, 0.01})
			}
			switch name {
			case "sum", "square_avg", "acc_delta", "exp_avg_sq":
				for i, v := 0, kernels.Floats(b); i < len(v); i++ {
					v[i] = r.Float32()
				}
				return true
			}
			return name == "hyper"
		}
		for _, n := range []int{1, 7, 16, 33, 1000, spanFloats, 2*spanFloats + 5} {
			if raceEnabled && n == spanFloats {
				continue
			}
			for _, op := range []kernels.Op{
				kernels.ReLUBackward{N: n}, kernels.Add{N: n}, kernels.Add{N: n, ReLU: true}, kernels.ScaleCheck{N: n},
				kernels.Cast{N: n}, kernels.Zero{N: n},
			} {
				compare(t, p, op, buffers(r, op, hyper), 1e-6)
			}
			for _, rule := range kernels.Rules() {
				op := kernels.Optimizer{Rule: rule, N: n, Exempt: n / 3}
				compare(t, p, op, buffers(r, op, hyper), 1e-6)
			}
		}
		skip := kernels.Optimizer{N: 40}
		compare(t, p, skip, buffers(r, skip, func(name string, b []byte) bool {
			if name == "hyper" {
				copy(kernels.Floats(b), []float32{0.1, 0.9, 5e-4, 1, 1, 0, 1, 0, 0, 0, 1})
			}
			return name == "hyper"
		}), 0)
	})
}

// dx may be dy's buffer, and y an input's.
func TestInPlace(t *testing.T) {
	eachVariant(t, func(t *testing.T, p *Pool) {
		r := rand.New(rand.NewPCG(5, 5))
		const rows, c = 300, 20
		for _, op := range []kernels.Op{
			kernels.ReLUBackward{N: rows * c},
			kernels.BatchNormBackward{Rows: rows, C: c, ReLU: true, Residual: true},
		} {
			bufs := buffers(r, op, positive(r))
			want := clone(bufs)
			op.Reference(want)
			out := 2
			if _, ok := op.(kernels.BatchNormBackward); ok {
				out = 6
			}
			bufs[out] = bufs[0]
			bindAll(t, p, Call{op, bufs}).Run(0)
			if e := relativeError(kernels.Floats(bufs[out]), kernels.Floats(want[out])); e > 1e-5 {
				t.Errorf("%s in place: relative error %.2g", op.Name(), e)
			}
		}
	})
}

func TestPools(t *testing.T) {
	eachVariant(t, func(t *testing.T, p *Pool) {
		r := rand.New(rand.NewPCG(6, 6))
		for _, m := range []kernels.MaxPool{
			{N: 1, H: 2, W: 2, C: 1, Size: 2, Stride: 2},
			{N: 3, H: 8, W: 6, C: 32, Size: 2, Stride: 2},
			{N: 2, H: 7, W: 9, C: 19, Size: 2, Stride: 2},
			{N: 2, H: 9, W: 8, C: 16, Size: 3, Stride: 2, Pad: 1},
			{N: 1, H: 6, W: 6, C: 21, Size: 3, Stride: 1},
			{N: 2, H: 8, W: 6, C: 32, Size: 2, Stride: 2, T: 3, SizeT: 1, StrideT: 1},
			{N: 3, H: 8, W: 6, C: 32, Size: 2, Stride: 2, T: 4, SizeT: 2, StrideT: 2},
			{N: 2, H: 8, W: 6, C: 35, Size: 2, Stride: 2, T: 5, SizeT: 2, StrideT: 2},
			{N: 2, H: 5, W: 6, C: 3, Size: 3, Stride: 1, Pad: 1, T: 4, SizeT: 3, StrideT: 1},
		} {
			bufs := buffers(r, m, nil)
			compare(t, p, m, bufs, 0)
			x := kernels.Floats(bufs[0])
			for i := range x { // ties, and a NaN among them
				x[i] = float32(r.IntN(3))
			}
			compare(t, p, m, bufs, 0)
			index := func(name string, b []byte) bool {
				if name == "index" { // any position whose window lies inside
					m.Reference(bufs)
					copy(b, bufs[2])
				}
				return name == "index"
			}
			back := kernels.MaxPoolBackward{MaxPool: m}
			compare(t, p, back, buffers(r, back, index), 1e-6)

			f := kernels.StackFrames{N: m.N, T: m.H, Pixels: m.W, C: m.C, Taps: m.Size, Pad: m.Size / 2}
			compare(t, p, f, buffers(r, f, nil), 0)
			fb := kernels.StackFramesBackward{StackFrames: f}
			compare(t, p, fb, buffers(r, fb, nil), 1e-6)
			a := kernels.AvgPool{N: m.N, H: m.H, W: m.W, C: m.C}
			compare(t, p, a, buffers(r, a, nil), 1e-6)
			ab := kernels.AvgPoolBackward{AvgPool: a}
			compare(t, p, ab, buffers(r, ab, nil), 1e-6)
		}
	})
}

func TestMaxPoolNaN(t *testing.T) {
	eachVariant(t, func(t *testing.T, p *Pool) {
		op := kernels.MaxPool{N: 1, H: 2, W: 2, C: 4, Size: 2, Stride: 2}
		nan := float32(math.NaN())
		bufs := [][]byte{bytesOf(64), bytesOf(16), bytesOf(4)}
		copy(kernels.Floats(bufs[0]), []float32{1, nan, 2, 3, nan, 5, 2, 3, 4, 5, nan, 3, 7, 8, nan, nan})
		bindAll(t, p, Call{op, bufs}).Run(0)
		want := clone(bufs)
		op.Reference(want)
		for i, y := range kernels.Floats(bufs[1]) {
			w := kernels.Floats(want[1])[i]
			if (y != y) != (w != w) || y == y && y != w || bufs[2][i] != want[2][i] {
				t.Errorf("channel %d: %g at %d, want %g at %d", i, y, bufs[2][i], w, want[2][i])
			}
		}
	})
}

func TestLinearAndLoss(t *testing.T) {
	eachVariant(t, func(t *testing.T, p *Pool) {
		r := rand.New(rand.NewPCG(7, 7))
		for _, s := range [][3]int{{1, 1, 1}, {5, 7, 3}, {128, 128, 10}, {33, 48, 100}, {2, 512, 10}} {
			l := kernels.Linear{N: s[0], In: s[1], Out: s[2]}
			compare(t, p, l, buffers(r, l, nil), 1e-6)
			b := kernels.LinearBackward{Linear: l}
			compare(t, p, b, buffers(r, b, nil), 1e-6)

			x := kernels.SoftmaxXent{N: s[0], C: s[2]}
			compare(t, p, x, buffers(r, x, func(name string, b []byte) bool {
				switch name {
				case "labels":
					for i, v := 0, kernels.Ints(b); i < len(v); i++ {
						v[i] = int32(r.IntN(s[2]))
					}
				case "hyper":
					kernels.Floats(b)[kernels.HyperLossScale] = 4
				default:
					return false
				}
				return true
			}), 1e-6)
		}
	})
}

func TestAugment(t *testing.T) {
	eachVariant(t, func(t *testing.T, p *Pool) {
		r := rand.New(rand.NewPCG(8, 8))
		aug := func(name string, b []byte) bool {
			for i, v := 0, kernels.Ints(b); name == "aug" && i < len(v); i++ {
				v[i] = int32(r.IntN(9) - 4)
				if i%kernels.AugLen == kernels.AugFlip {
					v[i] = int32(r.IntN(2))
				}
			}
			return name == "aug"
		}
		for _, op := range []kernels.Op{
			kernels.Augment{N: 5, H: 8, W: 7, C: 3, CPad: 3, Mean: [4]float32{0.5, 0.4, 0.3}, Std: [4]float32{0.2, 0.3, 0.25}},
			kernels.Augment{N: 2, H: 5, W: 5, C: 3, CPad: 8, Mean: [4]float32{0.5, 0.4, 0.3}, Std: [4]float32{0.2, 0.3, 0.25}},
			kernels.Augment{N: 1, H: 3, W: 4, C: 1, CPad: 1, Std: [4]float32{1}},
		} {
			compare(t, p, op, buffers(r, op, aug), 1e-6)
		}
		pad := kernels.PadChannels{Rows: 33, C: 3, CPad: 8}
		compare(t, p, pad, buffers(r, pad, nil), 0)
	})
}

// TestTransforms: the bytes are the reference's, which the loader's are too.
func TestTransforms(t *testing.T) {
	p := newPool(t, 3, best())
	r := rand.New(rand.NewPCG(7, 7))
	for _, op := range kernels.ExampleTransforms() {
		compare(t, p, op, buffers(r, op, func(name string, b []byte) bool {
			return name == "record" && kernels.Examples(op, r, kernels.Ints(b))
		}), 0)
	}
}
