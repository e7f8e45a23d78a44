package cpu

import "dev.gpustall/kernels"

// pixelBlock is how many pixels of x a product over pixels takes at a time: its
// rows stay in the second-level cache while all rows of dw use them.
const pixelBlock = 256

// byTap computes dw for one filter position and a range of output channels at a time:
// dw[k,t,c] = sum over pixels of dy[p,k] x[q(p,t),c]. Each item writes elements of its own. C is
// a multiple of 16.
type byTap struct {
	pl        *Plan
	c         kernels.Conv
	parts     int // ranges of output channels
	pixels    int
	rows      region
	x, dy, dw []float32
}

func (pl convolutions) weightByTap(c kernels.Conv, x, dy, dw []float32) func() {
	b := &byTap{pl: pl.Plan, c: c, pixels: c.Pixels(), x: x, dy: dy, dw: dw}
	taps := c.R * c.S
	// There are enough items to share evenly, each with enough channels to pay for gathering.
	b.parts = min(max(ceil(8*pl.pool.threads, taps), 1), max(c.K/56, 1))
	l := layout{pl: pl.Plan}
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

// byRow gathers whole windows and sums dw over blocks of pixels. The elements x[q(p,t),c] of all
// t and c are one row of a product over pixels.
//
// A block of dy is packed in strips. In a 1x1 convolution x is packed in panels, without
// gathering. Where the result is small nothing is packed, and the next block is fetched from
// memory meanwhile.
//
// The blocks fall into groups with a sum each. So the order of additions, and every bit of the
// result, is the same whichever thread comes first. Where the sums are large there are few
// groups, and the threads share the result along the longer of its sides.
type byRow struct {
	pl             *Plan
	c              kernels.Conv
	g              window
	pixels, kk, ld int // ld: kk rounded up to whole vectors
	block, blocks  int // pixels of a block; how many blocks
	groups         int
	ranges         int  // of the result ...
	across         bool // ... which run along kk instead of K
	pointwise      bool
	packs          bool // dy is packed in strips; narrow rows would not pay for it
	plain          bool // both operands are read in place, the next block is fetched meanwhile
	rowFloats      int  // of a block's rows or panels
	stripFloats    int  // of its strips
	rows, sums     region
	strips         region
	x, dy, dw      []float32
	bias           *biasSums
}

const (
	packFloats  = 256 << 10 // a block's strips and rows at the most: 1 MiB, of the second-level cache
	rangeFloats = 64 << 10  // the largest result of which every group has a sum
	plainFloats = 16 << 10  // the largest result for which nothing is packed
	plainRows   = 64        // the rows of a block then: they stay in the first-level cache
)

func (pl convolutions) weightByRow(c kernels.Conv, x, dy, dw, dbias []float32) func() {
	b := &byRow{pl: pl.Plan, c: c, pixels: c.Pixels(), kk: c.R * c.S * c.C, x: x, dy: dy, dw: dw}
	b.g = window{h: c.H, w: c.W, c: c.C, oh: c.OutH(), ow: c.OutW(), r: c.R, s: c.S, stride: c.Stride, pad: c.Pad}
	b.ld = align(b.kk, 16)
	threads, v := pl.pool.threads, pl.pool.variant
	b.pointwise = c.R == 1 && c.S == 1 && c.Pad == 0 && b.ld == b.kk && v != pureGo
	b.packs = v != pureGo && (b.pointwise || b.ld >= 128)
	b.ranges = 1
	k, kk := c.K, b.ld // the size of a range
	if c.K*b.ld > rangeFloats && v != pureGo {
		b.across = b.pointwise && kk > k
		if b.across {
			b.ranges = max(min(2*threads, kk/128), 1)
			kk = align(ceil(kk, b.ranges), 2*v.panel())
			b.ranges = ceil(b.kk, kk)
		} else {
			b.ranges = max(min(2*threads, k/112), 1)
			k = ceil(k, b.ranges)
		}
	}
	// Each block reads and writes its group's sum, so it must be long enough to pay for that.
	b.block = min(max(packFloats/(kk+v.strips(k)), 128), 512)
	b.plain = b.pointwise && c.Stride == 1 && c.K*b.ld <= plainFloats
	if b.plain {
		b.packs, b.block = false, plainRows
	}
	b.blocks = ceil(b.pixels, b.block)
	b.block = ceil(b.pixels, b.blocks)
	b.groups = min(8*threads, max(sumFloats/(c.K*b.ld), threads), b.blocks)
	if b.ranges > 1 {
		b.groups = min(ceil(2*threads, b.ranges), b.groups)
	}
	b.rowFloats, b.stripFloats = b.block*align(kk, v.panel())+gatherSlack, 0
	if b.plain {
		b.rowFloats = 0
	}
	if b.packs {
		b.stripFloats = b.block * v.strips(k)
	}
	l, workers := layout{pl: pl.Plan}, min(threads, b.groups*b.ranges)
	b.rows, b.strips = l.take(b.rowFloats*workers), l.take(b.stripFloats*workers)
	if !b.alone() {
		b.sums = l.take(c.K * b.ld * b.groups)
	}
	b.bias = newBiasSums(pl.Plan, b.groups, c.K, dbias)
	item, reduce := b.item, pl.parallel(ceil(c.K*b.kk, spanFloats), c.K, b.reduce)
	return func() {
		b.bias.reset()
		pl.pool.each(b.groups*b.ranges, item)
		if !b.alone() {
			reduce()
		}
		b.bias.finish()
	}
}

// alone reports whether the sum of the one group is the result itself.
func (b *byRow) alone() bool { return b.groups == 1 && b.ld == b.kk }

// item sums a group's blocks for one range of the result.
func (b *byRow) item(worker, i int) {
	v, group, part := b.pl.pool.variant, i/b.ranges, i%b.ranges
	first, end := split(b.blocks, b.groups, group)
	k0, k1, c0, c1 := 0, b.c.K, 0, b.ld
	if b.across {
		step := align(ceil(b.kk, b.ranges), 2*v.panel())
		c0, c1 = part*step, min((part+1)*step, b.kk)
	} else {
		k0, k1 = split(b.c.K, b.ranges, part)
	}
	sum := b.dw
	if !b.alone() {
		sum = b.pl.part(b.sums, group, b.c.K*b.ld)
	}
	sum = sum[k0*b.ld+c0:]
	rows, strips := b.pl.part(b.rows, worker, b.rowFloats), b.pl.part(b.strips, worker, b.stripFloats)
	for n := first; n < end; n++ {
		lo, hi := n*b.block, min((n+1)*b.block, b.pixels)
		fl := flags(n > first, false)
		if part == 0 {
			b.bias.add(group, b.dy[lo*b.c.K:hi*b.c.K])
		}
		if b.plain {
			next := min(end*b.block, b.pixels, hi+b.block) - hi
			v.gemmRows(b.c.K, b.kk, hi-lo, b.dy[lo*b.c.K:], b.x[lo*b.kk:], sum, fl, next)
			continue
		}
		ldb, step := b.ld, v.panel()
		if b.pointwise {
			ldb, step = step, step*(hi-lo)
			b.panels(lo, hi, c0, c1, rows, step)
		} else {
			v.gather(&b.g, b.x, lo, hi, rows, b.ld)
			for p := 0; b.ld > b.kk && p < hi-lo; p++ { // the end of a row, which gather does not write, holds another step's scratch
				clear(rows[p*b.ld+b.kk : (p+1)*b.ld])
			}
		}
		dy := b.dy[lo*b.c.K+k0:]
		if !b.packs {
			v.gemmTN(k1-k0, c1-c0, hi-lo, dy, b.c.K, rows, ldb, sum, b.ld, fl)
		} else {
			v.packStrips(k1-k0, hi-lo, dy, b.c.K, 0, hi-lo, strips)
			v.gemmStrips(k1-k0, c1-c0, hi-lo, strips, rows, ldb, step, sum, b.ld, fl)
		}
	}
}

// panels packs channels c0..c1 of the pixels of x that output pixels lo..hi read, one run of
// evenly spaced pixels at a time.
func (b *byRow) panels(lo, hi, c0, c1 int, out []float32, step int) {
	v, c := b.pl.pool.variant, &b.c
	oh, ow := c.OutH(), c.OutW()
	panels := ceil(c1-c0, v.panel())
	for p := lo; p < hi; {
		from, n := p, hi-p
		if c.Stride > 1 {
			from, n = (p/(oh*ow)*c.H+p/ow%oh*c.Stride)*c.W+p%ow*c.Stride, min(n, ow-p%ow)
		}
		v.pack(c1-c0, n, b.x[from*c.C+c0:], c.Stride*c.C, false, 0, panels, out[(p-lo)*v.panel():], step)
		p += n
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
