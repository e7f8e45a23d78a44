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
	b := &byTap{pl: pl, c: c, pixels: c.Pixels(), x: x, dy: dy, dw: dw}
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

// byRow gathers whole windows and sums dw over blocks of pixels: x[q(p,t),c] for
// all t and c is one row of a product over pixels. x is read once. The blocks
// fall into groups with a sum each, so that the order of additions, and with it
// every bit of the result, does not depend on which thread comes first.
type byRow struct {
	pl             *Plan
	c              kernels.Conv
	g              window
	pixels, kk, ld int // ld: kk rounded up to whole vectors
	block, blocks  int // pixels of a block; how many blocks
	groups         int
	rows, sums     region
	x, dy, dw      []float32
	bias           *biasSums
}

func (pl *Plan) weightByRow(c kernels.Conv, x, dy, dw, dbias []float32) func() {
	b := &byRow{pl: pl, c: c, pixels: c.Pixels(), kk: c.R * c.S * c.C, x: x, dy: dy, dw: dw}
	b.g = window{h: c.H, w: c.W, c: c.C, oh: c.OutH(), ow: c.OutW(), r: c.R, s: c.S, stride: c.Stride, pad: c.Pad}
	b.ld = align(b.kk, 16)
	// Each block reads and writes its group's sum: it must be long enough to pay for that.
	b.block = min(max(2*blockFloats/b.ld, 128), 512)
	b.blocks = ceil(b.pixels, b.block)
	threads := pl.pool.threads
	b.groups = min(8*threads, max(sumFloats/(c.K*b.ld), threads), b.blocks)
	l := layout{pl: pl}
	b.rows, b.sums = l.take((b.block*b.ld+gatherSlack)*min(threads, b.groups)), l.take(c.K*b.ld*b.groups)
	b.bias = newBiasSums(pl, b.groups, c.K, dbias)
	group, reduce := b.group, pl.parallel(ceil(c.K*b.kk, spanFloats), c.K, b.reduce)
	return func() {
		b.bias.reset()
		pl.pool.each(b.groups, group)
		reduce()
		b.bias.finish()
	}
}

func (b *byRow) group(worker, i int) {
	v := b.pl.pool.variant
	first, end := split(b.blocks, b.groups, i)
	rows := b.pl.part(b.rows, worker, b.block*b.ld+gatherSlack)
	for n := first; n < end; n++ {
		lo, hi := n*b.block, min((n+1)*b.block, b.pixels)
		v.gather(&b.g, b.x, lo, hi, rows, b.ld)
		for p := 0; b.ld > b.kk && p < hi-lo; p++ { // what gather leaves of a row is another step's scratch
			clear(rows[p*b.ld+b.kk : (p+1)*b.ld])
		}
		v.gemmTN(b.c.K, b.ld, hi-lo, b.dy[lo*b.c.K:], b.c.K, rows, b.ld,
			b.pl.part(b.sums, i, b.c.K*b.ld), b.ld, flags(n > first, false))
		b.bias.add(i, b.dy[lo*b.c.K:hi*b.c.K])
	}
}

// reduce adds up rows k0..k1 of the groups' sums.
func (b *byRow) reduce(k0, k1 int) {
	for k := k0; k < k1; k++ {
		row := b.dw[k*b.kk : (k+1)*b.kk]
		copy(row, b.pl.part(b.sums, 0, b.c.K*b.ld)[k*b.ld:])
		for i := 1; i < b.groups; i++ {
			for j, x := range b.pl.part(b.sums, i, b.c.K*b.ld)[k*b.ld:][:b.kk] {
				row[j] += x
			}
		}
	}
}
