//go:build cgo

package cpu

import (
	"unsafe"

	"dev.gpustall/kernels"
)

// dotBytes is the size of a worker's block of gathered rows of bfloat16s: half of a 2 MiB
// second-level cache, which the processors with AMX have.
const dotBytes = 1 << 20

// dotRows returns how many rows of k bfloat16s a worker gathers at a time.
func dotRows(k int) int { return 32 * min(max(dotBytes/2/k/32, 1), 16) }

// bindDots returns the step that uses the processor's products of bfloat16s. It returns nil where
// there are none, or where they are vectors (not AMX's tiles) and minimal filtering in float32 is
// faster. Minimal filtering multiplies a quarter as often. Its products are exact, because its
// input is widened bfloat16s.
func (pl bf16) bindDots(c Call) func() {
	p := pl.pool
	if p.dots == noDots || p.variant != avx512 {
		return nil
	}
	for _, b := range c.Bufs {
		if uintptr(unsafe.Pointer(unsafe.SliceData(b)))%4 != 0 {
			return nil
		}
	}
	suits := func(c kernels.Conv) bool {
		return c.C%2 == 0 && c.K%2 == 0 && (p.dots == dotsOfAMX || !convolutions(pl).winograd(c))
	}
	switch op := c.Op.(type) {
	case kernels.ConvForward:
		if suits(op.Conv) {
			return pl.dotForward(op, c.Bufs)
		}
	case kernels.ConvBackwardData:
		if suits(op.Conv) {
			return pl.dotBackward(op, c.Bufs)
		}
	case kernels.ConvBackwardWeight:
		if suits(op.Conv) && op.K%16 == 0 {
			return pl.dotWeight(op, c.Bufs)
		}
	}
	return nil
}

// pairs views h as float32s, two elements each, for code that only moves them.
func pairs(h []uint16) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(h))), len(h)/2)
}

// gathered makes left operands from blocks of windows. Each row has kk bfloat16s, with zeros up
// to kp.
type gathered struct {
	pl     *Plan
	g      window // channels counted in pairs
	kk, kp int
	rows   int  // of a block
	direct bool // the windows are read in place
	x      []uint16
	a      region
}

// gatherWindows prepares blocks of g's windows of x. It counts g's channels in pairs.
func gatherWindows(l *layout, g window, x []uint16) *gathered {
	s := &gathered{pl: l.pl, g: g, kk: g.r * g.s * g.c, x: x}
	s.kp = align(s.kk, dotted)
	s.rows = dotRows(max(s.kp, dotted))
	s.direct = g.r == 1 && g.s == 1 && g.stride == 1 && g.pad == 0 && g.dr == 0 && g.ds == 0 &&
		g.h == g.oh && g.w == g.ow && s.kk == s.kp
	s.g.c /= 2
	if !s.direct {
		s.a = l.takeHalves(s.part() * l.pl.pool.threads)
	}
	return s
}

// part returns how many bfloat16s a worker gathers into.
func (s *gathered) part() int { return s.rows*s.kp + 2*gatherSlack }

// block returns windows lo..hi.
func (s *gathered) block(worker, lo, hi int) rows16 {
	a := rows16{ld: s.kp, block: 16 * s.kp, step: dotted}
	if s.direct {
		a.p = s.x[lo*s.kk:]
		return a
	}
	a.p = s.pl.halvesPart(s.a, worker, s.part())
	s.pl.pool.variant.gather(&s.g, pairs(s.x), lo, hi, pairs(a.p), s.kp/2)
	for r := 0; s.kp > s.kk && r < hi-lo; r++ { // the end of a row, which gather does not write, holds another step's scratch
		clear(a.p[r*s.kp+s.kk : (r+1)*s.kp])
	}
	return a
}

// dotForward computes y = im2col(x) w^T by blocks of output pixels.
func (pl bf16) dotForward(op kernels.ConvForward, bufs [][]byte) func() {
	c, x, w, y := op.Conv, halves(bufs[0]), halves(bufs[1]), halves(bufs[2])
	var bias []float32
	if op.Bias {
		bias = kernels.Floats(bufs[3])
	}
	l := layout{pl: pl.Plan}
	s := gatherWindows(&l, windowOf(c), x)
	panels, fl := ceil(c.K, dotted), flags(false, op.ReLU)
	packed := l.takeHalves(panels * dotted * s.kp)
	pack := func(_, j int) {
		out := pairs(pl.halvesAt(packed))
		pl.pool.variant.pack(c.K, s.kk/2, pairs(w), s.kk/2, true, j, j+1, out, s.kp/2*dotted)
		clear(out[(j*s.kp+s.kk)/2*dotted : (j+1)*s.kp/2*dotted])
	}
	block := func(worker, i int) {
		lo, hi := i*s.rows, min((i+1)*s.rows, c.Pixels())
		gemm(pl.pool.dots, hi-lo, c.K, s.kp, s.block(worker, lo, hi), pl.halvesAt(packed), y[lo*c.K:], c.K, bias, fl)
	}
	return func() {
		pl.pool.each(panels, pack)
		pl.pool.each(ceil(c.Pixels(), s.rows), block)
	}
}

func windowOf(c kernels.Conv) window {
	return window{h: c.H, w: c.W, c: c.C, oh: c.OutH(), ow: c.OutW(), r: c.R, s: c.S, stride: c.Stride, pad: c.Pad}
}

// dotClass is the pixels (h0 + i*stride, w0 + j*stride) of every image. They meet the same taps:
// a window of dy around (i, j), with the taps in reverse.
type dotClass struct {
	h0, w0 int
	taps   []int
	s      *gathered
	packed region
}

// dotBackward computes dx by classes of pixels, as backward does.
func (pl bf16) dotBackward(op kernels.ConvBackwardData, bufs [][]byte) func() {
	dy, w, dx := halves(bufs[0]), halves(bufs[1]), halves(bufs[2])
	l := layout{pl: pl.Plan}
	var classes []dotClass
	var items []item
	most, panels := 0, ceil(op.C, dotted)
	for h0 := range min(op.Stride, op.H) {
		for w0 := range min(op.Stride, op.W) {
			rs, di := meets(h0+op.Pad, op.R, op.Stride)
			ss, dj := meets(w0+op.Pad, op.S, op.Stride)
			g := window{h: op.OutH(), w: op.OutW(), c: op.K, oh: ceil(op.H-h0, op.Stride), ow: ceil(op.W-w0, op.Stride),
				r: len(rs), s: len(ss), stride: 1, dr: di, ds: dj}
			c := dotClass{h0: h0, w0: w0, s: gatherWindows(&l, g, dy)}
			for _, r := range rs {
				for _, s := range ss {
					c.taps = append(c.taps, r*op.S+s)
				}
			}
			c.packed = l.takeHalves(panels * dotted * c.s.kp)
			pixels := op.N * g.oh * g.ow
			for lo := 0; lo < pixels; lo += c.s.rows {
				items = append(items, item{len(classes), lo, min(lo+c.s.rows, pixels)})
			}
			most = max(most, c.s.rows)
			classes = append(classes, c)
		}
	}
	var scattered region
	if op.Stride > 1 {
		scattered = l.takeHalves(align(most*op.C, 2) * pl.pool.threads)
	}
	fl := flags(op.Accumulate, false)
	pack := func(_, i int) {
		c, j := &classes[i%len(classes)], i/len(classes)
		out := pl.halvesAt(c.packed)[j*c.s.kp*dotted : (j+1)*c.s.kp*dotted]
		for n, t := range c.taps {
			pairRows(op.C, op.K, w[t*op.C:], op.R*op.S*op.C, j, j+1, out[n*op.K*dotted:], 0)
		}
		clear(out[c.s.kk*dotted:])
	}
	block := func(worker, i int) {
		it := items[i]
		c := &classes[it.class]
		n := it.hi - it.lo
		if op.Stride == 1 {
			gemm(pl.pool.dots, n, op.C, c.s.kp, c.s.block(worker, it.lo, it.hi), pl.halvesAt(c.packed), dx[it.lo*op.C:], op.C, nil, fl)
			return
		}
		out := pl.halvesPart(scattered, worker, align(most*op.C, 2))
		switch {
		case c.s.kk > 0:
			gemm(pl.pool.dots, n, op.C, c.s.kp, c.s.block(worker, it.lo, it.hi), pl.halvesAt(c.packed), out, op.C, nil, 0)
		case op.Accumulate:
			return
		default:
			clear(out[:n*op.C])
		}
		scatterRows(it.lo, it.hi, c.s.g.oh, c.s.g.ow, op.H, op.W, c.h0, c.w0, op.Stride, op.C, out, dx, fl)
	}
	return func() {
		pl.pool.each(panels*len(classes), pack)
		pl.pool.each(len(items), block)
	}
}

// meets returns which taps of a filter join input position at (counted with padding) to an
// output, in the order of these outputs, and the distance to the first output.
func meets(at, size, stride int) (taps []int, first int) {
	for t := size - 1; t >= 0; t-- {
		if d := at - t; d%stride == 0 {
			if len(taps) == 0 {
				first = d / stride
			}
			taps = append(taps, t)
		}
	}
	return taps, first
}
