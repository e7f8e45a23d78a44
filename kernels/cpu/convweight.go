package cpu

import "dev.gpustall/kernels"

// pixelBlock is how many pixels of x a product over pixels takes at a time: its
// rows stay in the second-level cache while all rows of dw use them.
const pixelBlock = 256

// byTap computes dw for one filter position and a range of output channels at a
// time: dw[k,t,c] = sum over pixels of dy[p,k] x[q(p,t),c]. No two items write the
// same element. C is a multiple of 16.
type byTap struct {
	pl        *Plan
	c         kernels.Conv
	parts     int // ranges of output channels
	pixels    int
	rows      region
	x, dy, dw []float32
}

func (pl *Plan) weightByTap(c kernels.Conv, x, dy, dw []float32) func() {
	b := &byTap{pl: pl, c: c, pixels: c.N * c.OutH() * c.OutW(), x: x, dy: dy, dw: dw}
	taps := c.R * c.S
	// Enough items to share evenly, but channels enough to pay for the gathering.
	b.parts = min(max(ceil(8*pl.pool.threads, taps), 1), max(c.K/56, 1))
	l := layout{pl: pl}
	b.rows = l.take(pixelBlock * c.C * pl.pool.threads)
	pool, n, work := pl.pool, taps*b.parts, b.item
	return func() { pool.each(n, work) }
}

func (b *byTap) item(worker, i int) {
	v, c := b.pl.pool.variant, &b.c
	taps := c.R * c.S
	t := i % taps
	k0, k1 := split(c.K, b.parts, i/taps)
	// One tap of a convolution is a 1x1 convolution of the shifted image.
	g := window{h: c.H, w: c.W, c: c.C, oh: c.OutH(), ow: c.OutW(), r: 1, s: 1, stride: c.Stride, pad: c.Pad}
	g.dr, g.ds = t/c.S, t%c.S
	rows := b.pl.part(b.rows, worker, pixelBlock*c.C)
	for lo := 0; lo < b.pixels; lo += pixelBlock {
		hi := min(lo+pixelBlock, b.pixels)
		v.gather(&g, b.x, lo, hi, rows, c.C)
		v.gemmTN(k1-k0, c.C, hi-lo, b.dy[lo*c.K+k0:], c.K, rows, c.C,
			b.dw[(k0*taps+t)*c.C:], taps*c.C, flags(lo > 0, false))
	}
}

// byRow gathers whole windows and lets each worker sum its own dw: x[q(p,t),c]
// for all t and c is one row of a product over pixels. x is read once.
type byRow struct {
	pl             *Plan
	c              kernels.Conv
	g              window
	pixels, kk, ld int // ld: kk rounded up to whole vectors
	block, blocks  int // pixels of a block; how many blocks
	rows, sums     region
	begun          []bool // the worker has a sum
	x, dy, dw      []float32
	bias           *biasSums
}

func (pl *Plan) weightByRow(c kernels.Conv, x, dy, dw, dbias []float32) func() {
	b := &byRow{pl: pl, c: c, pixels: c.N * c.OutH() * c.OutW(), kk: c.R * c.S * c.C, x: x, dy: dy, dw: dw}
	b.g = window{h: c.H, w: c.W, c: c.C, oh: c.OutH(), ow: c.OutW(), r: c.R, s: c.S, stride: c.Stride, pad: c.Pad}
	b.ld = align(b.kk, 16)
	// Each block reads and writes all sums: it must be long enough to pay for that.
	b.block = min(max(2*blockFloats/b.ld, 128), 512)
	b.blocks = ceil(b.pixels, b.block)
	l := layout{pl: pl}
	threads := pl.pool.threads
	b.rows, b.sums = l.take((b.block*b.ld+gatherSlack)*threads), l.take(c.K*b.ld*threads)
	b.begun = make([]bool, threads)
	b.bias = newBiasSums(pl, threads, c.K, dbias)
	work := b.item
	reduce := pl.parallel(ceil(c.K*b.kk, spanFloats), c.K, b.reduce)
	return func() {
		clear(b.begun)
		b.bias.reset()
		pl.pool.each(b.blocks, work)
		reduce()
		b.bias.finish()
	}
}

func (b *byRow) item(worker, i int) {
	v := b.pl.pool.variant
	lo, hi := i*b.block, min((i+1)*b.block, b.pixels)
	rows := b.pl.part(b.rows, worker, b.block*b.ld+gatherSlack)
	v.gather(&b.g, b.x, lo, hi, rows, b.ld)
	for p := 0; b.ld > b.kk && p < hi-lo; p++ { // what gather leaves of a row is another step's scratch
		clear(rows[p*b.ld+b.kk : (p+1)*b.ld])
	}
	v.gemmTN(b.c.K, b.ld, hi-lo, b.dy[lo*b.c.K:], b.c.K, rows, b.ld,
		b.pl.part(b.sums, worker, b.c.K*b.ld), b.ld, flags(b.begun[worker], false))
	b.begun[worker] = true
	b.bias.add(worker, b.dy[lo*b.c.K:hi*b.c.K])
}

// reduce adds up rows k0..k1 of the workers' sums.
func (b *byRow) reduce(k0, k1 int) {
	for k := k0; k < k1; k++ {
		row, first := b.dw[k*b.kk:(k+1)*b.kk], true
		for w, begun := range b.begun {
			if !begun {
				continue
			}
			sum := b.pl.part(b.sums, w, b.c.K*b.ld)[k*b.ld:][:b.kk]
			if first {
				copy(row, sum)
				first = false
				continue
			}
			for j, x := range sum {
				row[j] += x
			}
		}
	}
}
