//go:build cgo

package cpu

import "dev.gpustall/kernels"

// positions is the number of products of F(4x4,3x3).
const positions = 36

// rowUnit is the height of the tallest micro-kernel: blocks of tiles begin at
// its multiples. A worker takes some units through all three stages at a time:
// few, so that they stay in its second-level cache, or more where the filters
// are what does not fit and should be read seldom.
const rowUnit = 14

func unitsFor(c, k int) int {
	if c*k > 256*256 {
		return 6
	}
	return 3
}

// winoConv is a 3x3 convolution with stride 1, forward or, turned, for the
// gradient of the input.
type winoConv struct {
	pl                *Plan
	back              bool
	k, c              int // of the filters
	in, out           grid
	tiles, units      int // units of rowUnit tiles
	blocks            int
	block             int // most tiles of one
	ustep             int // floats between positions of u
	u, v, m           region
	vstep, mstep      int
	x, w, y, bias     []float32
	flags, panelCount int
}

func (pl *Plan) winoConv(c kernels.Conv, back bool, x, w, y, bias []float32, flags int) func() {
	wc := &winoConv{pl: pl, back: back, k: c.K, c: c.C, x: x, w: w, y: y, bias: bias, flags: flags}
	oh, ow := c.OutH(), c.OutW()
	wc.in = grid{h: c.H, w: c.W, c: c.C, pad: c.Pad, th: ceil(oh, 4), tw: ceil(ow, 4)}
	wc.out = grid{h: oh, w: ow, c: c.K, th: wc.in.th, tw: wc.in.tw}
	if back { // dx is the convolution of dy with the turned filters and padding 2-pad
		wc.in = grid{h: oh, w: ow, c: c.K, pad: 2 - c.Pad, th: ceil(c.H, 4), tw: ceil(c.W, 4)}
		wc.out = grid{h: c.H, w: c.W, c: c.C, th: wc.in.th, tw: wc.in.tw}
	}
	threads := pl.pool.threads
	wc.tiles = c.N * wc.in.th * wc.in.tw
	wc.units = ceil(wc.tiles, rowUnit)
	wc.blocks = min(align(ceil(wc.units, unitsFor(c.C, c.K)), threads), wc.units)
	wc.block = ceil(wc.units, wc.blocks) * rowUnit
	panel := pl.pool.variant.panel()
	wc.panelCount = ceil(wc.out.c, panel)
	wc.ustep = skew(wc.panelCount * panel * wc.in.c)
	wc.vstep, wc.mstep = skew(wc.block*wc.in.c), skew(wc.block*wc.out.c)
	l := layout{pl: pl}
	wc.u = l.take(positions * wc.ustep)
	wc.v = l.take(positions * wc.vstep * min(threads, wc.blocks))
	wc.m = l.take(positions * wc.mstep * min(threads, wc.blocks))
	filter, tiles := wc.filter, wc.tile
	return func() {
		pl.pool.each(wc.panelCount, filter)
		pl.pool.each(wc.blocks, tiles)
	}
}

func (wc *winoConv) filter(_, j int) {
	wc.pl.pool.variant.winoFilter(wc.back, wc.k, wc.c, wc.ustep, j, j+1, wc.w, wc.pl.at(wc.u))
}

func (wc *winoConv) tile(worker, i int) {
	isa := wc.pl.pool.variant
	lo, hi := split(wc.units, wc.blocks, i)
	lo, hi = lo*rowUnit, min(hi*rowUnit, wc.tiles)
	u, v, m := wc.pl.at(wc.u), wc.pl.part(wc.v, worker, positions*wc.vstep), wc.pl.part(wc.m, worker, positions*wc.mstep)
	isa.winoInput(&wc.in, lo, hi, wc.vstep, wc.x, v)
	isa.gemmNN(positions, hi-lo, wc.out.c, wc.in.c, v, wc.in.c, wc.vstep, u, wc.ustep, m, wc.out.c, wc.mstep, nil, 0)
	isa.winoOutput(&wc.out, lo, hi, wc.mstep, m, wc.y, wc.bias, wc.flags)
}

// chunkFloats bounds the transformed x and dy that one round of the filter's
// gradient holds, 4 MiB; but a round has at least chunkTiles tiles, because it
// reads and writes all sums.
const (
	chunkFloats = 1 << 20
	chunkTiles  = 176
)

// winoWeight is the gradient of the filters: for each of the 36 positions the
// product, over all tiles, of the spread dy and the transformed x.
type winoWeight struct {
	pl                 *Plan
	in, out            grid // of x and dy
	k, c               int
	tiles, chunk       int
	u, v, s            region
	ustep, vstep, step int
	x, dy, dw          []float32
	bias               *biasSums
	first, end         int // the tiles of this round
	parts              int // of a round's transforms
	rowParts           int // of a position's product
}

func (pl *Plan) winoWeight(c kernels.Conv, x, dy, dw, dbias []float32) func() {
	ww := &winoWeight{pl: pl, k: c.K, c: c.C, x: x, dy: dy, dw: dw}
	oh, ow := c.OutH(), c.OutW()
	ww.in = grid{h: c.H, w: c.W, c: c.C, pad: c.Pad, th: ceil(oh, 4), tw: ceil(ow, 4)}
	ww.out = grid{h: oh, w: ow, c: c.K, th: ww.in.th, tw: ww.in.tw}
	ww.tiles = c.N * ww.in.th * ww.in.tw
	most := max(chunkFloats/(positions*(c.C+c.K)), chunkTiles)
	ww.chunk = ceil(ww.tiles, ceil(ww.tiles, most))
	ww.ustep = skew(c.K * c.C)
	ww.vstep, ww.step = skew(ww.chunk*c.C), skew(ww.chunk*c.K)
	l := layout{pl: pl}
	ww.u, ww.v, ww.s = l.take(positions*ww.ustep), l.take(positions*ww.vstep), l.take(positions*ww.step)
	pool := pl.pool
	ww.parts = 4 * pool.threads
	ww.rowParts = ceil(pool.threads, 4)
	ww.bias = newBiasSums(pl, ww.parts, c.K, dbias)
	transform, multiply, gather := ww.transform, ww.multiply, ww.gather
	rows := ceil(c.K, 16)
	return func() {
		ww.bias.reset()
		for ww.first = 0; ww.first < ww.tiles; ww.first = ww.end {
			ww.end = min(ww.first+ww.chunk, ww.tiles)
			pool.each(2*ww.parts, transform)
			pool.each(positions*ww.rowParts, multiply)
		}
		pool.each(rows, gather)
		ww.bias.finish()
	}
}

func (ww *winoWeight) transform(_, i int) {
	isa := ww.pl.pool.variant
	lo, hi := split(ww.end-ww.first, ww.parts, i/2)
	if i%2 == 0 {
		isa.winoInput(&ww.in, ww.first+lo, ww.first+hi, ww.vstep, ww.x, ww.pl.at(ww.v)[lo*ww.c:])
	} else {
		isa.winoSpread(&ww.out, ww.first+lo, ww.first+hi, ww.step, ww.dy, ww.pl.at(ww.s)[lo*ww.k:])
		// At position (1, 1), A is a row of ones on both sides: the tile's sum.
		ww.bias.add(i/2, ww.pl.at(ww.s)[7*ww.step:][lo*ww.k:hi*ww.k])
	}
}

func (ww *winoWeight) multiply(_, i int) {
	p := i / ww.rowParts
	lo, hi := split(ww.k, ww.rowParts, i%ww.rowParts)
	s, v, u := ww.pl.at(ww.s)[p*ww.step:], ww.pl.at(ww.v)[p*ww.vstep:], ww.pl.at(ww.u)[p*ww.ustep:]
	n := ww.end - ww.first
	// A quarter of a cache's worth of tiles at a time.
	for t := 0; t < n; t += pixelBlock {
		ww.pl.pool.variant.gemmTN(hi-lo, ww.c, min(pixelBlock, n-t), s[t*ww.k+lo:], ww.k, v[t*ww.c:], ww.c,
			u[lo*ww.c:], ww.c, flags(ww.first+t > 0, false))
	}
}

func (ww *winoWeight) gather(_, i int) {
	ww.pl.pool.variant.winoGather(ww.c, ww.ustep, i*16, min((i+1)*16, ww.k), ww.pl.at(ww.u), ww.dw)
}
