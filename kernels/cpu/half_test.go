package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"dev.gpustall/kernels"
)

// halfPools are pools for each instruction set, and for each way to multiply bfloat16s, that can
// run here.
func halfPools(t *testing.T) map[string]*Pool {
	pools := map[string]*Pool{}
	for _, v := range variants() {
		p := newPool(t, 3, v)
		p.dots = noDots
		pools[v.String()] = p
	}
	for d := dotsOf512; d <= bestDots(); d++ {
		p := newPool(t, 3, best())
		p.dots = d
		pools[d.String()] = p
	}
	return pools
}

// The reference multiplies bfloat16s exactly and sums in float64. A sum in float32 in another order
// rounds to the same bfloat16 or to its neighbour. That is one unit in the last place: at most 2^-7
// of the largest result, as a bfloat16 has 8 significant bits.
const halfTolerance = 0x1p-7

// fillHalf stores normal deviates, and positions in windows.
func fillHalf(r *rand.Rand, op kernels.Op) [][]byte {
	var bufs [][]byte
	for _, a := range op.Args() {
		b := bytesOf(a.Size())
		v := make([]float32, a.Len)
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		if a.Type == kernels.BF16 || a.Type == kernels.F32 {
			kernels.Store(b, a.Type, v)
		}
		for i := 0; a.Type == kernels.U8 && i < a.Len; i++ {
			b[i] = byte(r.IntN(4)) // a position in any window
		}
		bufs = append(bufs, b)
	}
	return bufs
}

// compareHalf runs op in bf16 on every pool.
func compareHalf(t *testing.T, pools map[string]*Pool, op kernels.Op) {
	t.Helper()
	bufs := fillHalf(rand.New(rand.NewPCG(7, 1)), op)
	want := reference(op, bufs)
	for name, p := range pools {
		if raceEnabled && p.variant != best() {
			continue
		}
		compareHalfOn(t, name, p, op, bufs, want)
	}
}

func compareHalfOn(t *testing.T, name string, p *Pool, op kernels.Op, bufs, want [][]byte) {
	t.Helper()
	got := clone(bufs)
	pl := bindAll(t, p, Call{op, got})
	var before [][]byte
	for run := range 2 {
		for i, b := range bufs {
			copy(got[i], b)
		}
		for i := range pl.mem { // what scratch memory held must not matter: each half a NaN
			pl.mem[i] = math.Float32frombits(0x7fc07fc0)
		}
		pl.Run(0)
		for i, a := range op.Args() {
			what := fmt.Sprintf("%s: %s %+v: %s, run %d", name, op.Name(), op, a.Name, run)
			if !guardIntact(got[i]) {
				t.Fatalf("%s: wrote past the end", what)
			}
			if before != nil && string(before[i]) != string(got[i]) {
				t.Errorf("%s: other bits than in the first", what)
			}
			tolerance := convTolerance
			switch {
			case a.Role == kernels.In || a.Type == kernels.U8:
				tolerance = 0
			case a.Type == kernels.BF16:
				tolerance = halfTolerance
			}
			if a.Type != kernels.BF16 && a.Type != kernels.F32 {
				if string(got[i]) != string(want[i]) {
					t.Errorf("%s: bytes differ", what)
				}
				continue
			}
			if e := relativeError(kernels.Load(got[i], a.Type), kernels.Load(want[i], a.Type)); !(e <= tolerance) {
				t.Errorf("%s: relative error %.2g, allowed %.2g", what, e, tolerance)
			}
		}
		before = clone(got)
	}
}

func TestHalfConv(t *testing.T) {
	more := []kernels.Conv{ // whole panels and blocks, tails of both, classes of pixels without taps
		{N: 3, H: 9, W: 7, C: 32, K: 64, R: 3, S: 3, Stride: 2, Pad: 1},
		{N: 2, H: 9, W: 8, C: 64, K: 32, R: 1, S: 1, Stride: 2},
		{N: 2, H: 10, W: 11, C: 8, K: 48, R: 7, S: 7, Stride: 2, Pad: 3},
		{N: 6, H: 20, W: 19, C: 32, K: 16, R: 3, S: 3, Stride: 1, Pad: 1},
	}
	pools := halfPools(t)
	for _, c := range append(more, convs...) {
		if c.N > 8 || long(c) {
			continue // seconds of reference, for nothing that smaller shapes do not show
		}
		for _, on := range []bool{false, true} {
			compareHalf(t, pools, kernels.ConvForward{Conv: c, Type: kernels.BF16, Bias: on, ReLU: on})
			compareHalf(t, pools, kernels.ConvBackwardData{Conv: c, Type: kernels.BF16, Accumulate: on})
			compareHalf(t, pools, kernels.ConvBackwardWeight{Conv: c, Type: kernels.BF16, Bias: on})
		}
	}
}

// What is left runs on widened copies, whatever it is.
func TestHalfWidened(t *testing.T) {
	pools := halfPools(t)
	for _, op := range []kernels.Op{
		kernels.Linear{N: 7, In: 13, Out: 10, Type: kernels.BF16},
		kernels.LinearBackward{Linear: kernels.Linear{N: 7, In: 64, Out: 10, Type: kernels.BF16}},
		kernels.Cast{N: 999, Type: kernels.BF16},
	} {
		compareHalf(t, pools, op)
	}
}

// Pools, sums and copies compute in float32 and round once.
func TestHalfTensors(t *testing.T) {
	pools := halfPools(t)
	ops := []kernels.Op{
		kernels.PadChannels{Rows: 35, C: 3, CPad: 8, Type: kernels.BF16}, kernels.PadChannels{Rows: 5, C: 17, CPad: 40, Type: kernels.BF16},
	}
	for _, n := range []int{1, 999, spanFloats + 5} {
		ops = append(ops, kernels.Add{N: n, Type: kernels.BF16}, kernels.Add{N: n, Type: kernels.BF16, ReLU: true}, kernels.ReLUBackward{N: n, Type: kernels.BF16})
	}
	for _, m := range []kernels.MaxPool{
		{N: 2, H: 9, W: 8, C: 5, Size: 2, Stride: 2},
		{N: 3, H: 8, W: 6, C: 32, Size: 2, Stride: 2},
		{N: 2, H: 8, W: 6, C: 48, Size: 2, Stride: 2, T: 4, SizeT: 2, StrideT: 2},
		{N: 2, H: 9, W: 8, C: 16, Size: 3, Stride: 2, Pad: 1}, // windows overlap
	} {
		m.Type = kernels.BF16
		f := kernels.StackFrames{N: m.N, T: m.H, Pixels: m.W, C: m.C, Taps: m.Size, Pad: m.Size / 2, Type: m.Type}
		a := kernels.AvgPool{N: m.N, H: m.H, W: m.W, C: m.C, Type: m.Type}
		ops = append(ops, m, kernels.MaxPoolBackward{MaxPool: m}, f, kernels.StackFramesBackward{StackFrames: f}, a, kernels.AvgPoolBackward{AvgPool: a})
	}
	for _, op := range ops {
		compareHalf(t, pools, op)
	}
}

// Rounding is to the nearest, ties to even; infinities and NaNs stay.
func TestNarrow(t *testing.T) {
	var from []float32
	for h := range 1 << 16 {
		for _, low := range []uint32{0, 1, 0x7fff, 0x8000, 0x8001, 0xffff} {
			from = append(from, math.Float32frombits(uint32(h)<<16|low))
		}
	}
	want := make([]uint16, len(from))
	goNarrow(from, want)
	for _, v := range variants() {
		got := make([]uint16, len(from))
		v.narrow(from, got)
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("%v: %#x of %g, want %#x", v, got[i], from[i], want[i])
			}
		}
	}
}
