//go:build cgo

package cpu

import "dev.gpustall/kernels"

// chunkFloats bounds the transformed x and dy of one round of the filters' gradient: 4 MiB. But a
// round has at least chunkTiles tiles (with stride 1), since it reads and writes all sums.
const (
	chunkFloats = 1 << 20
	chunkTiles  = 176
)

// winoWeight is the gradient of the filters. For each position it multiplies the spread dy by the
// transformed x, and sums over all tiles.
type winoWeight struct {
	pl                 *Plan
	stride, side       int
	in, out            grid // of x and dy
	k, c               int
	tiles, chunk       int
	u, v, s            region
	ustep, vstep, step int // floats between filters in u, positions in v and s
	x, dy, dw          []float32
	bias               *biasSums
	first, end         int    // the tiles of this round
	parts              int    // of a round's transforms
	rowParts           int    // of a filter's product
	left, right        region // a worker's operands, where products are made by thirds
	lefts, rights      int    // bfloat16s of them; 0: products are not made by thirds
}

// thirdsFilters is the number of filters, K*C, from which products over tiles are made by thirds.
// With fewer, splitting the operands takes longer than the products save.
const thirdsFilters = 192 * 192

func (pl convolutions) winoWeight(c kernels.Conv, x, dy, dw, dbias []float32) func() {
	ww := &winoWeight{pl: pl.Plan, stride: c.Stride, side: side(c.Stride), k: c.K, c: c.C, x: x, dy: dy, dw: dw}
	oh, ow := c.OutH(), c.OutW()
	ww.in = grid{h: c.H, w: c.W, c: c.C, pad: c.Pad, th: ceil(oh, 4), tw: ceil(ow, 4), stride: c.Stride}
	ww.out = grid{h: oh, w: ow, c: c.K, th: ww.in.th, tw: ww.in.tw, stride: c.Stride}
	ww.tiles = c.N * ww.in.th * ww.in.tw
	ww.ustep = skew(c.K * c.C)
	if g := ww.grouped(); g != nil {
		return g.bind(dbias)
	}
	positions := ww.side * ww.side
	most := max(chunkFloats/(positions*(c.C+c.K)), chunkTiles*filters/positions)
	ww.chunk = ceil(ww.tiles, ceil(ww.tiles, most))
	ww.vstep, ww.step = skew(ww.chunk*c.C), skew(ww.chunk*c.K)
	l, pool := layout{pl: pl.Plan}, pl.pool
	ww.u, ww.v, ww.s = l.take(filters*ww.ustep), l.take(positions*ww.vstep), l.take(positions*ww.step)
	ww.parts = 4 * pool.threads
	ww.rowParts = ceil(pool.threads, 4)
	if pool.thirds() && c.K*c.C >= thirdsFilters {
		n := min(ww.chunk, pixelBlock)
		ww.lefts, ww.rights = leftThirds(ceil(c.K, ww.rowParts), n), rightThirds(c.C, n)
		ww.left, ww.right = l.takeHalves(ww.lefts*pool.threads), l.takeHalves(ww.rights*pool.threads)
	}
	ww.bias = newBiasSums(pl.Plan, ww.parts, c.K, dbias)
	transform, multiply, gather := ww.transform, ww.multiply, ww.gather
	rows := ceil(c.K, 16)
	return func() {
		ww.bias.reset()
		for ww.first = 0; ww.first < ww.tiles; ww.first = ww.end {
			ww.end = min(ww.first+ww.chunk, ww.tiles)
			pool.each(2*ww.parts, transform)
			pool.each(filters*ww.rowParts, multiply)
		}
		pool.each(rows, gather)
		ww.bias.finish()
	}
}

func (ww *winoWeight) transform(_, i int) {
	isa := ww.pl.pool.variant
	lo, hi := split(ww.end-ww.first, ww.parts, i/2)
	if i%2 == 0 {
		isa.transformInput(false, &ww.in, ww.first+lo, ww.first+hi, ww.vstep, ww.x, ww.pl.at(ww.v)[lo*ww.c:])
		return
	}
	s := ww.pl.at(ww.s)
	isa.spread(&ww.out, ww.first+lo, ww.first+hi, ww.step, ww.dy, s[lo*ww.k:])
	// At position (1, 1), A is a row of ones on both axes: the tile's sum.
	ww.bias.add(i/2, s[(ww.side+1)*ww.step:][lo*ww.k:hi*ww.k])
}

// multiply adds the products of the positions that share filter i. The last filter has the most
// positions and goes first.
func (ww *winoWeight) multiply(worker, i int) {
	f := filters - 1 - i/ww.rowParts
	lo, hi := split(ww.k, ww.rowParts, i%ww.rowParts)
	u, n := ww.pl.at(ww.u)[f*ww.ustep:], ww.end-ww.first
	begun, fl := ww.first > 0, 0
	alone := ww.last(f/6) == f/6+1 && ww.last(f%6) == f%6+1
	if alone && n <= pixelBlock && n == ww.tiles { // nothing is added to it
		fl = streams(len(u))
	}
	for r := f / 6; r < ww.last(f/6); r++ {
		for q := f % 6; q < ww.last(f%6); q++ {
			p := r*ww.side + q
			s, v := ww.pl.at(ww.s)[p*ww.step:], ww.pl.at(ww.v)[p*ww.vstep:]
			for t := 0; t < n; t += pixelBlock { // as many tiles at a time as stay in cache
				ww.product(worker, hi-lo, min(pixelBlock, n-t), s[t*ww.k+lo:], v[t*ww.c:], u[lo*ww.c:], flags(begun, false)|fl)
				begun = true
			}
		}
	}
}

// product sums over n tiles, for that many rows of u.
func (ww *winoWeight) product(worker, rows, n int, s, v, u []float32, flags int) {
	pl := ww.pl
	if ww.lefts == 0 {
		pl.pool.variant.gemmTN(rows, ww.c, n, s, ww.k, v, ww.c, u, ww.c, flags)
		return
	}
	left, right := pl.halvesPart(ww.left, worker, ww.lefts), pl.halvesPart(ww.right, worker, ww.rights)
	block, panel := leftThirds(16, n), rightThirds(thirdsN, n)
	packLeftThirds(rows, n, s, ww.k, left)
	packRightThirds(ww.c, n, v, ww.c, false, 0, ceil(ww.c, thirdsN), right, panel)
	gemmThirds(rows, ww.c, n, left, block, right, panel, u, ww.c, nil, flags)
}

// last returns the end of the positions along an axis that share filter f.
func (ww *winoWeight) last(f int) int {
	if f == 5 {
		return ww.side
	}
	return f + 1
}

func (ww *winoWeight) gather(_, i int) {
	ww.pl.pool.variant.gatherFilter(ww.stride, ww.c, ww.ustep, i*16, min((i+1)*16, ww.k), ww.pl.at(ww.u), ww.dw)
}
