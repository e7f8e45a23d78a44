package cpu

import "dev.gpustall/kernels"

// rowUnit is the height of the tallest micro-kernel. Blocks of pixels or tiles begin at
// multiples of it.
const rowUnit = 14

// maxWinogradC bounds the channels of winograd.h's row of zeros.
const maxWinogradC = 4096

// maxFilters bounds C*K. The transformed filters take 36 floats for each: 144 MiB at the most.
const maxFilters = 1 << 20

// convolutions binds a plan's convolutions and linear layers in float32: it chooses the way of
// each, and takes the scratch memory for it.
type convolutions struct{ *Plan }

// winograd reports whether minimal filtering can compute c and saves arithmetic. Where tiles
// reach far beyond the edges it saves none. With stride 1 it is F(4x4,3x3), which makes 36
// products for 16 outputs; with stride 2 (stride2.h) it makes 81.
func (pl convolutions) winograd(c kernels.Conv) bool {
	if !native || pl.pool.variant == pureGo || c.R != 3 || c.S != 3 || c.C%16 != 0 || c.K%16 != 0 ||
		max(c.C, c.K) > maxWinogradC || c.C*c.K > maxFilters {
		return false
	}
	h, w := c.OutH(), c.OutW()
	products, direct := ceil(h, 4)*ceil(w, 4), 9*h*w
	switch {
	case c.Stride == 1 && c.Pad <= 2:
		return 36*products*10 <= direct*6
	case c.Stride == 2 && c.Pad == 1:
		return 81*products*10 <= direct*7
	}
	return false
}

// leastThirds is the least inner dimension of a tap for which thirds are used. Thirds pad it to
// thirdsK.
const leastThirds = 16

// leastPixels and leastWeights are the smallest gradients of weights for which thirds are used.
// The pixels are the inner dimension. The more weights there are, the more products each split
// operand serves.
const (
	leastPixels  = 64
	leastWeights = 8 << 10
)

// byThirds reports whether thirds are the fastest way to compute c, given the inner dimension of a
// tap. 3x3 convolutions with stride 1 go by minimal filtering instead.
func (pl convolutions) byThirds(c kernels.Conv, inner int) bool {
	return pl.pool.thirds() && inner >= leastThirds && (c.Stride > 1 || !pl.winograd(c))
}

func (pl convolutions) forward(op kernels.ConvForward, x, w, y, bias []float32) func() {
	if pl.banded(op.Conv) {
		return pl.byBands(op.Conv, false, x, w, y, bias, flags(false, op.ReLU))
	}
	if pl.byThirds(op.Conv, op.C) {
		return pl.thirdsForward(op, x, w, y, bias)
	}
	if pl.winograd(op.Conv) {
		return pl.winoConv(op.Conv, false, x, w, y, bias, flags(false, op.ReLU))
	}
	if pl.narrow(op.Conv) {
		return pl.narrowForward(op.Conv, x, w, y, bias, flags(false, op.ReLU))
	}
	g := newForward(pl.Plan, op.Conv)
	return g.bind(x, w, y, bias, flags(false, op.ReLU))
}

func (pl convolutions) backwardData(op kernels.ConvBackwardData, dy, w, dx []float32) func() {
	if pl.banded(op.Conv) {
		return pl.byBands(op.Conv, true, dy, w, dx, nil, flags(op.Accumulate, false))
	}
	if pl.byThirds(op.Conv, op.K) {
		return pl.thirdsBackward(op, dy, w, dx)
	}
	if pl.winograd(op.Conv) {
		return pl.winoConv(op.Conv, true, dy, w, dx, nil, flags(op.Accumulate, false))
	}
	return pl.dataByClass(op, dy, w, dx)
}

// sumFloats bounds the partial sums of a gradient of weights, all together.
const sumFloats = 4 << 20

func (pl convolutions) backwardWeight(op kernels.ConvBackwardWeight, x, dy, dw, dbias []float32) func() {
	switch {
	case pl.byThirds(op.Conv, op.C) && op.C*op.K >= leastWeights && op.Pixels() >= leastPixels:
		return pl.thirdsWeight(op.Conv, x, dy, dw, dbias)
	case pl.winograd(op.Conv):
		return pl.winoWeight(op.Conv, x, dy, dw, dbias)
	case pl.narrow(op.Conv):
		return pl.narrowWeight(op.Conv, x, dy, dw, dbias)
	case op.R*op.S == 1 || op.C%16 != 0 || pl.pool.threads*op.K*op.R*op.S*op.C <= sumFloats:
		return pl.weightByRow(op.Conv, x, dy, dw, dbias)
	}
	weight := pl.weightByTap(op.Conv, x, dy, dw)
	if !op.Bias {
		return weight
	}
	sums := pl.columnSums(dy, op.Pixels(), op.K, dbias)
	return func() {
		weight()
		sums()
	}
}

// linear computes a linear layer as a 1x1 convolution of N pixels.
func (pl convolutions) linear(op kernels.Linear, x, w, y, bias []float32) func() {
	return pl.forward(kernels.ConvForward{Conv: pointwise(op)}, x, w, y, bias)
}

func (pl convolutions) linearBackward(op kernels.LinearBackward, dy, x, w, dx, dw, dbias []float32) func() {
	c := pointwise(op.Linear)
	data := pl.backwardData(kernels.ConvBackwardData{Conv: c}, dy, w, dx)
	weight := pl.backwardWeight(kernels.ConvBackwardWeight{Conv: c, Bias: true}, x, dy, dw, dbias)
	return func() {
		data()
		weight()
	}
}

func pointwise(op kernels.Linear) kernels.Conv {
	return kernels.Conv{N: op.N, H: 1, W: 1, C: op.In, K: op.Out, R: 1, S: 1, Stride: 1}
}

// region is a part of the plan's scratch memory, in float32s.
type region struct{ off, n int }

// layout hands out regions of one step's scratch.
type layout struct {
	pl *Plan
	n  int
}

// take reserves n float32s that start on a cache line.
func (l *layout) take(n int) region {
	r := region{l.pl.base + l.n, n}
	l.n += align(n, 16)
	l.pl.need(l.pl.base + l.n)
	return r
}

func (pl *Plan) at(r region) []float32 { return pl.mem[r.off : r.off+r.n] }

// part returns the i-th part of r, where each part has n float32s.
func (pl *Plan) part(r region, i, n int) []float32 {
	off := r.off + i*n
	return pl.mem[off : off+n]
}

// skew rounds a distance of n float32s up to an odd number of cache lines. 36 streams that are a
// power of two apart would share one set of the first-level cache.
func skew(n int) int { return align(n, 16) + 16*(1-ceil(n, 16)%2) }
