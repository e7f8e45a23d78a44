package cuda

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dev.gpustall/kernels"
)

// Every kernel of every module, interpreted. A short run leaves most of the shapes
// out, and does not ask that every kernel ran.
func TestPTX(t *testing.T) {
	whole := t.Run("op", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T){
			"elementwise": testPTXElementwise, "batchnorm": testPTXBatchNorm, "many_parts": testPTXManyParts, "pooling": testPTXPooling, "head": testPTXHead,
			"transforms":           func(t *testing.T) { testTransforms(func(op kernels.Op) { checkPTX(t, op) }) },
			"conv_forward":         func(t *testing.T) { testPTXConv(t, convForward) },
			"conv_backward_data":   func(t *testing.T) { testPTXConv(t, convBackwardData) },
			"conv_backward_weight": func(t *testing.T) { testPTXConv(t, convBackwardWeight) },
			"conv_split":           testPTXSplit,
			"conv_split_wgmma":     testPTXWgmmaSplit,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t)
			})
		}
	})
	if whole && !testing.Short() {
		checkPTXCoverage(t)
	}
}

// few is the first n of the shapes in a short run.
func few[T any](shapes []T, n int) []T {
	if testing.Short() {
		return shapes[:n]
	}
	return shapes
}

func testPTXElementwise(t *testing.T) {
	for _, n := range few([]int{7, 1003, 1, 30001}, 2) {
		for _, typ := range floatTypes {
			checkPTX(t, kernels.Add{N: n, Type: typ})
			checkPTX(t, kernels.Add{N: n, Type: typ, ReLU: true})
			checkPTX(t, kernels.ReLUBackward{N: n, Type: typ}, 2, 0)
			checkPTX(t, kernels.Cast{N: n, Type: typ})
			checkPTX(t, kernels.Dropout{N: n, Rate: 0.3, Layer: 1, Type: typ})
			for _, rule := range kernels.Rules() {
				checkPTX(t, kernels.Optimizer{Rule: rule, N: n, Exempt: n / 3, Copy: typ})
			}
		}
		checkPTX(t, kernels.Zero{N: n})
		checkPTX(t, kernels.NextNoise{})
		checkPTX(t, kernels.ScaleCheck{N: n})
	}
	size := 29
	if testing.Short() {
		size = 7
	}
	for _, c := range few([][2]int{{3, 8}, {3, 4}, {1, 16}, {4, 6}, {9, 13}, {3, 9}, {16, 32}}, 1) {
		for _, typ := range floatTypes {
			checkPTX(t, kernels.PadChannels{Rows: 3 * size * size, C: c[0], CPad: c[1], Type: typ})
			if c[0] > 4 {
				continue // Augment knows up to 4
			}
			checkPTX(t, kernels.Augment{N: 3, H: size, W: size, C: c[0], CPad: c[1], Type: typ,
				Mean: [4]float32{0.49, 0.48, 0.45, 0.5}, Std: [4]float32{0.2, 0.19, 0.21, 0.25}})
		}
	}
}

func testPTXBatchNorm(t *testing.T) {
	for i, s := range few([][2]int{{37, 16}, {50, 5}, {1, 8}, {300, 72}, {2100, 8}, {4200, 5}, {7, 33}}, 2) {
		for _, typ := range floatTypes {
			for _, relu := range []bool{false, true} {
				residual := relu == (i%2 == 0)
				for _, train := range []bool{false, true} {
					checkPTX(t, kernels.BatchNormForward{Rows: s[0], C: s[1], Type: typ, Eps: 1e-5, Momentum: 0.1, Train: train, ReLU: relu, Residual: residual})
				}
				checkPTX(t, kernels.BatchNormBackward{Rows: s[0], C: s[1], Type: typ, ReLU: relu, Residual: residual}, 6, 0)
			}
		}
	}
}

// Rows enough for each of 132 processors to have some, so that the last block has
// long sums of parts.
func testPTXManyParts(t *testing.T) {
	if testing.Short() {
		return
	}
	for _, op := range []kernels.BatchNormForward{{Rows: 16500, C: 4, Type: kernels.F32}, {Rows: 8300, C: 8, Type: kernels.F16}, {Rows: 8300, C: 8, Type: kernels.BF16}} {
		op.Eps, op.Momentum, op.Train = 1e-5, 0.1, true
		checkPTX(t, op)
		checkPTX(t, kernels.BatchNormBackward{Rows: op.Rows, C: op.C, Type: op.Type})
	}
}

func testPTXPooling(t *testing.T) {
	for _, p := range few([]kernels.MaxPool{
		{N: 2, H: 8, W: 6, C: 16, Size: 2, Stride: 2},
		{N: 3, H: 5, W: 5, C: 3, Size: 3, Stride: 1},
		{N: 2, H: 4, W: 6, C: 8, Size: 2, Stride: 2, T: 5, SizeT: 2, StrideT: 2},
		{N: 1, H: 7, W: 9, C: 8, Size: 3, Stride: 2, Pad: 1},
		{N: 1, H: 5, W: 5, C: 3, Size: 3, Stride: 1, Pad: 1, T: 4, SizeT: 3, StrideT: 1},
		{N: 1, H: 9, W: 9, C: 5, Size: 2, Stride: 3},
		{N: 3, H: 23, W: 23, C: 13, Size: 3, Stride: 2, Pad: 1},
		{N: 3, H: 23, W: 23, C: 64, Size: 3, Stride: 2, Pad: 1},
	}, 3) {
		for _, typ := range floatTypes {
			p.Type = typ
			a := kernels.AvgPool{N: p.N, H: p.H, W: p.W, C: p.C, Type: typ}
			f := kernels.StackFrames{N: p.N, T: p.H, Pixels: p.W, C: p.C, Taps: 3, Pad: 1, Type: typ}
			for _, op := range []kernels.Op{f, kernels.StackFramesBackward{StackFrames: f}, p, kernels.MaxPoolBackward{MaxPool: p}, a, kernels.AvgPoolBackward{AvgPool: a}} {
				checkPTX(t, op)
			}
		}
	}
}

func testPTXHead(t *testing.T) {
	for _, s := range few([][3]int{{5, 512, 10}, {7, 67, 100}, {1, 1, 1}, {133, 264, 3}}, 2) {
		for _, typ := range floatTypes {
			l := kernels.Linear{N: s[0], In: s[1], Out: s[2], Type: typ}
			checkPTX(t, l)
			checkPTX(t, kernels.LinearBackward{Linear: l})
		}
		checkPTX(t, kernels.SoftmaxXent{N: s[0], C: s[2]})
		checkPTX(t, kernels.SoftmaxXent{N: s[1], C: s[2], Smoothing: 0.1})
	}
}

func testPTXConv(t *testing.T, dir direction) {
	// More of those for CUDA cores, the other way round with bias and accumulation;
	// and many pixels for few weights, so that the sum over parts is long.
	shapes := append(slices.Clone(testConvs),
		kernels.Conv{N: 1, H: 5, W: 6, C: 12, K: 20, R: 3, S: 3, Stride: 2, Pad: 1},
		kernels.Conv{N: 1, H: 6, W: 7, C: 5, K: 3, R: 2, S: 3, Stride: 1, Pad: 1},
		kernels.Conv{N: 5, H: 20, W: 20, C: 4, K: 4, R: 1, S: 1, Stride: 1},
		kernels.Conv{N: 3, H: 20, W: 20, C: 3, K: 3, R: 1, S: 1, Stride: 1})
	for i, g := range few(shapes, 1) {
		if dir == convBackwardData && g.K > 256 {
			g.K = 40 // the wide tiles run along C
		}
		for _, typ := range floatTypes {
			odd := i%2 == 1
			switch dir {
			case convForward:
				checkPTX(t, kernels.ConvForward{Conv: g, Type: typ, Bias: odd, ReLU: i%3 == 0})
			case convBackwardData:
				checkPTX(t, kernels.ConvBackwardData{Conv: g, Type: typ, Accumulate: odd})
			default:
				checkPTX(t, kernels.ConvBackwardWeight{Conv: g, Type: typ, Bias: odd})
			}
		}
	}
}

var ptxFile = regexp.MustCompile(`^(.*)\.sm_(\d+)a?\.ptx$`)

// checkPTXCoverage fails where an entry point never ran, and says how many of the
// instructions did.
func checkPTXCoverage(t *testing.T) {
	sum, of := 0, 0
	var least []string
	for _, f := range ptxFiles(t) {
		var sm int
		name := ptxFile.FindStringSubmatch(f)
		if strings.HasSuffix(name[1], "_unfenced") {
			continue // TestUnfenced: it does not run to its end
		}
		if _, err := fmt.Sscan(name[2], &sm); err != nil {
			t.Fatal(err)
		}
		m := ptxModule(t, name[1], sm)
		for _, entry := range m.Entries() {
			ran, all, missed := m.Coverage(entry)
			if ran == 0 {
				t.Errorf("%s: %s never ran", f, entry)
			}
			sum, of = sum+ran, of+all
			if ran < all {
				least = append(least, fmt.Sprintf("%5.1f%% of %s %s, not lines %v", 100*float64(ran)/float64(all), f, entry, missed[:min(8, len(missed))]))
			}
		}
	}
	slices.Sort(least)
	t.Logf("%d of %d instructions ran", sum, of)
	if sum*100 < of*95 {
		t.Errorf("%d of %d instructions ran, of which 95%% should", sum, of)
	}
	for _, s := range least {
		t.Log(s)
	}
}
