package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"dev.gpustall/kernels"
)

// convs has every path: few channels, odd sizes, strides, no padding, 1x1, tails
// of vectors and panels, and Winograd with whole and cut tiles.
var convs = []kernels.Conv{
	{N: 1, H: 1, W: 1, C: 1, K: 1, R: 1, S: 1, Stride: 1},
	{N: 1, H: 5, W: 7, C: 3, K: 5, R: 3, S: 3, Stride: 1, Pad: 1},
	{N: 3, H: 8, W: 8, C: 3, K: 32, R: 3, S: 3, Stride: 1, Pad: 1},
	{N: 2, H: 9, W: 7, C: 4, K: 33, R: 3, S: 3, Stride: 2, Pad: 1},
	{N: 1, H: 11, W: 11, C: 3, K: 16, R: 7, S: 7, Stride: 2, Pad: 3},
	{N: 2, H: 12, W: 17, C: 3, K: 64, R: 7, S: 7, Stride: 2, Pad: 3},
	{N: 1, H: 60, W: 40, C: 9, K: 32, R: 3, S: 3, Stride: 1, Pad: 1}, // several bands of an image
	{N: 2, H: 5, W: 6, C: 2, K: 32, R: 2, S: 3, Stride: 3, Pad: 0},
	{N: 1, H: 6, W: 5, C: 17, K: 19, R: 3, S: 3, Stride: 1, Pad: 1},
	{N: 2, H: 6, W: 6, C: 8, K: 6, R: 5, S: 3, Stride: 1, Pad: 2},
	{N: 2, H: 7, W: 9, C: 16, K: 48, R: 1, S: 1, Stride: 2},
	{N: 2, H: 6, W: 6, C: 32, K: 64, R: 1, S: 1, Stride: 1},
	{N: 4, H: 28, W: 29, C: 48, K: 24, R: 1, S: 1, Stride: 1}, // several blocks of a group
	{N: 3, H: 8, W: 8, C: 32, K: 64, R: 3, S: 3, Stride: 2, Pad: 1},
	{N: 2, H: 7, W: 5, C: 16, K: 20, R: 3, S: 3, Stride: 2, Pad: 1},
	{N: 1, H: 9, W: 9, C: 16, K: 8, R: 3, S: 3, Stride: 3, Pad: 0},
	{N: 1, H: 4, W: 4, C: 16, K: 16, R: 3, S: 3, Stride: 1, Pad: 1},
	{N: 2, H: 8, W: 8, C: 32, K: 48, R: 3, S: 3, Stride: 1, Pad: 1},
	{N: 3, H: 7, W: 11, C: 48, K: 32, R: 3, S: 3, Stride: 1, Pad: 1},
	{N: 1, H: 10, W: 9, C: 16, K: 16, R: 3, S: 3, Stride: 1, Pad: 0},
	{N: 1, H: 10, W: 9, C: 16, K: 16, R: 3, S: 3, Stride: 1, Pad: 2},
	{N: 2, H: 13, W: 15, C: 48, K: 32, R: 3, S: 3, Stride: 2, Pad: 1},
	{N: 5, H: 16, W: 15, C: 16, K: 48, R: 3, S: 3, Stride: 2, Pad: 1},
	{N: 33, H: 8, W: 8, C: 64, K: 64, R: 3, S: 3, Stride: 1, Pad: 1},
	{N: 3, H: 1, W: 1, C: 32, K: 32, R: 3, S: 3, Stride: 1, Pad: 1}, // bands: see bands.h
	{N: 2, H: 7, W: 18, C: 64, K: 32, R: 3, S: 3, Stride: 1, Pad: 0},
	{N: 1, H: 90, W: 70, C: 32, K: 32, R: 3, S: 3, Stride: 1, Pad: 2},
}

// tolerance of a convolution, relative to the largest output: a tenth of what
// agreement with PyTorch asks for.
const convTolerance = 1e-5

func TestConv(t *testing.T) {
	eachVariant(t, func(t *testing.T, p *Pool) {
		eachProduct(p, func() { testConv(t, p) })
	})
}

// eachProduct runs f with and without products by thirds, where p makes them.
func eachProduct(p *Pool, f func()) {
	f()
	if d := p.dots; p.thirds() {
		defer func() { p.dots = d }()
		p.dots = noDots
		f()
	}
}

// long reports whether the race detector would make a convolution's reference take seconds. The
// goroutines do the same for smaller ones.
func long(c kernels.Conv) bool { return raceEnabled && c.Pixels()*c.K*c.R*c.S*c.C > 1<<21 }

func testConv(t *testing.T, p *Pool) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, c := range convs {
		if p.variant == pureGo && c.N > 8 || long(c) {
			continue // seconds, for nothing that smaller shapes do not show
		}
		for _, on := range []bool{false, true} {
			for _, op := range []kernels.Op{
				kernels.ConvForward{Conv: c, Bias: on, ReLU: on},
				kernels.ConvBackwardData{Conv: c, Accumulate: on},
				kernels.ConvBackwardWeight{Conv: c, Bias: on},
			} {
				compare(t, p, op, buffers(r, op, nil), convTolerance)
			}
		}
	}
}

// The way by taps is for gradients that are too large here; try it on all.
func TestWeightByTap(t *testing.T) {
	eachVariant(t, func(t *testing.T, p *Pool) {
		r := rand.New(rand.NewPCG(2, 1))
		for _, c := range convs {
			if c.C%16 != 0 || c.N > 8 || long(c) {
				continue
			}
			op := kernels.ConvBackwardWeight{Conv: c}
			bufs := buffers(r, op, nil)
			want := reference(op, bufs)
			pl := &Plan{pool: p}
			run := convolutions{pl}.weightByTap(c, kernels.Floats(bufs[0]), kernels.Floats(bufs[1]), kernels.Floats(bufs[2]))
			if err := pl.Bind(bytesOf(pl.Scratch())); err != nil {
				t.Fatal(err)
			}
			run()
			if e := relativeError(kernels.Floats(bufs[2]), kernels.Floats(want[2])); !(e <= convTolerance) {
				t.Errorf("%+v: relative error %.2g", c, e)
			}
		}
	})
}

// TestWeightGradients takes the gradients of several layers' weights one after the other, twice, in
// the same scratch memory. The operands are those of training: activations after a ReLU, and
// gradients that a batch norm left with a mean of zero.
func TestWeightGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	var calls []Call
	var want [][]byte
	for _, c := range []kernels.Conv{
		{N: 1, H: 4, W: 4, C: 64, K: 64, R: 3, S: 3, Stride: 1, Pad: 1}, // fewer tiles than groups
		{N: 7, H: 5, W: 9, C: 32, K: 48, R: 3, S: 3, Stride: 1, Pad: 1},
		{N: 80, H: 16, W: 16, C: 16, K: 16, R: 3, S: 3, Stride: 1, Pad: 1}, // a group has several blocks
		{N: 3, H: 11, W: 6, C: 128, K: 128, R: 3, S: 3, Stride: 1, Pad: 1}, // in halves
		{N: 20, H: 16, W: 16, C: 64, K: 80, R: 3, S: 3, Stride: 1, Pad: 1}, // and several blocks
		{N: 2, H: 9, W: 7, C: 144, K: 128, R: 3, S: 3, Stride: 1, Pad: 1},  // all positions at once
		{N: 4, H: 9, W: 7, C: 192, K: 208, R: 3, S: 3, Stride: 1, Pad: 1},  // by thirds where there is AMX
		{N: 3, H: 9, W: 7, C: 64, K: 64, R: 3, S: 3, Stride: 2, Pad: 1},
		{N: 2, H: 30, W: 30, C: 72, K: 120, R: 1, S: 1, Stride: 1},  // several groups
		{N: 2, H: 8, W: 9, C: 330, K: 290, R: 1, S: 1, Stride: 1},   // ranges of the result
		{N: 13, H: 15, W: 11, C: 96, K: 320, R: 1, S: 1, Stride: 2}, // and several blocks
	} {
		if long(c) {
			continue
		}
		op := kernels.ConvBackwardWeight{Conv: c, Bias: true}
		bufs := buffers(r, op, nil)
		for i, x := 0, kernels.Floats(bufs[0]); i < len(x); i++ {
			x[i] = max(x[i], 0)
		}
		dy := kernels.Floats(bufs[1])
		for k := range c.K {
			var sum float32
			for i := k; i < len(dy); i += c.K {
				sum += dy[i]
			}
			for i := k; i < len(dy); i += c.K {
				dy[i] -= sum / float32(c.Pixels())
			}
		}
		calls, want = append(calls, Call{op, bufs}), append(want, clone(bufs)...)
		op.Reference(want[len(want)-len(bufs):])
	}
	for _, v := range variants() {
		if v == pureGo {
			continue // other tests show that it has one way for all shapes
		}
		for _, threads := range []int{1, 2, 3} {
			p := newPool(t, threads, v)
			eachProduct(p, func() {
				pl := bindAll(t, p, calls...)
				for i := range pl.mem {
					pl.mem[i] = float32(math.NaN())
				}
				for run := range 2 {
					for i := range calls {
						pl.Run(i)
					}
					for i, c := range calls {
						if e := relativeError(kernels.Floats(c.Bufs[2]), kernels.Floats(want[4*i+2])); !(e <= convTolerance) {
							t.Errorf("%v, %d threads, run %d, %+v: relative error %.2g", p.Variant(), threads, run, c.Op, e)
						}
					}
				}
			})
		}
	}
}
