//go:build cgo

package cpu

import "dev.gpustall/kernels"

const (
	thirdsDepth = 640     // the most of the inner dimension at a time; the next part is added to the result
	thirdsHalf  = 350_000 // bfloat16s of a thread's rows: a third of 2 MiB of second-level cache
	thirdsRows  = 512     // the most rows of a block, so that its results stay in that cache too
	thirdsUnit  = 32      // rows that tiles take at a time
	thirdsNear  = 600_000 // weights up to this size stay in that cache for all rows
	thirdsFew   = 64      // the most rows at a time then; the next are fetched meanwhile
)

// thirdsConv multiplies windows of x by weights, both split in thirds. It packs a block of windows
// tap by tap just before it multiplies the block.
type thirdsConv struct {
	pl            *Plan
	taps          []window // of one tap each, all on one grid
	c, n          int      // channels of x, and columns of the result
	chunks        int      // of the inner dimension; each tap has whole ones
	groups        [][]piece
	units, pixels int // of the grid: units of thirdsUnit pixels
	blocks        int // of units
	packed, left  region
	leftHalves    int  // bfloat16s of a thread's rows
	rows          int  // packed at a time
	direct        bool // the rows are those of x
}

// piece is channels first..end of a tap.
type piece struct{ tap, first, end int }

func newThirdsConv(l *layout, taps []window, pixels, n int) *thirdsConv {
	t := &thirdsConv{pl: l.pl, taps: taps, c: taps[0].c, n: n, pixels: pixels}
	t.chunks = len(taps) * ceil(t.c, thirdsK)
	depth, deepest := thirdsDepth, 0
	for i := range taps {
		for first := 0; first < t.c; first += thirdsDepth {
			p := piece{i, first, min(first+thirdsDepth, t.c)}
			k := align(p.end-first, thirdsK)
			if depth += k; depth > thirdsDepth {
				t.groups, depth = append(t.groups, nil), k
			}
			last := len(t.groups) - 1
			t.groups[last] = append(t.groups[last], p)
			deepest = max(deepest, depth)
		}
	}
	most := min(max(thirdsHalf/(3*deepest), thirdsUnit), thirdsRows)
	threads := l.pl.pool.threads
	t.units = ceil(pixels, thirdsUnit)
	t.blocks = min(align(ceil(t.units, most/thirdsUnit), threads), t.units)
	t.rows = ceil(t.units, t.blocks) * thirdsUnit
	if rightThirds(n, t.chunks*thirdsK) <= thirdsNear {
		t.rows = min(t.rows, thirdsFew)
	}
	g := &taps[0]
	t.direct = len(taps) == 1 && g.stride == 1 && g.pad == 0 && g.dr == 0 && g.ds == 0 && g.h == g.oh && g.w == g.ow
	t.leftHalves = leftThirds(t.rows, deepest)
	t.packed = l.takeHalves(rightThirds(n, t.chunks*thirdsK))
	return t
}

// panels returns how many parts pack has.
func (t *thirdsConv) panels() int { return ceil(t.n, thirdsN) }

// pack packs panel j of the weights of all taps. The weights of tap i begin at w[offset(i)] and
// their rows lie ld apart; turned says that they are transposed.
func (t *thirdsConv) pack(j int, w []float32, ld int, turned bool, offset func(tap int) int) {
	deep := ceil(t.c, thirdsK)
	panel := t.chunks * thirdsRight
	for i := range t.taps {
		out := t.pl.halvesAt(t.packed)[i*deep*thirdsRight:]
		packRightThirds(t.n, t.c, w[offset(i):], ld, turned, j, j+1, out, panel)
	}
}

// bounds returns the pixels of block i.
func (t *thirdsConv) bounds(i int) (lo, hi int) {
	lo, hi = split(t.units, t.blocks, i)
	return lo * thirdsUnit, min(hi*thirdsUnit, t.pixels)
}

// block computes the rows of c for pixels lo..hi.
func (t *thirdsConv) block(worker, lo, hi int, x, c []float32, bias []float32, fl int) {
	left := t.pl.halvesPart(t.left, worker, t.leftHalves)
	for p := lo; p < hi; p += t.rows {
		end := min(p+t.rows, hi)
		var soon []float32
		if t.direct {
			soon = x[end*t.c : min(end+t.rows, hi)*t.c]
		}
		t.multiply(p, end, x, left, c[(p-lo)*t.n:], bias, fl, soon)
	}
}

func (t *thirdsConv) multiply(lo, hi int, x []float32, left []uint16, c []float32, bias []float32, fl int, soon []float32) {
	right := t.pl.halvesAt(t.packed)
	for i, group := range t.groups {
		deep := 0
		for _, p := range group {
			deep += ceil(p.end-p.first, thirdsK)
		}
		at := 0
		for _, p := range group {
			packTapThirds(&t.taps[p.tap], x, lo, hi, p.first, p.end, left[at*thirdsLeft:], deep*thirdsLeft)
			at += ceil(p.end-p.first, thirdsK)
		}
		f, ahead := fl, []float32(nil)
		if i > 0 {
			f, bias = f|accumulate, nil
		}
		if i < len(t.groups)-1 {
			f &^= relu | stream
		} else {
			ahead = soon
		}
		gemmThirdsAhead(hi-lo, t.n, deep*thirdsK, left, deep*thirdsLeft, right, t.chunks*thirdsRight, c, t.n, bias, f, ahead)
		right = right[deep*thirdsRight:]
	}
}

// thirdsForward computes y = windows of x times w^T.
func (pl convolutions) thirdsForward(op kernels.ConvForward, x, w, y, bias []float32) func() {
	c := op.Conv
	var taps []window
	for r := range c.R {
		for s := range c.S {
			g := windowOf(c)
			g.r, g.s, g.dr, g.ds = 1, 1, r, s
			taps = append(taps, g)
		}
	}
	l := layout{pl: pl.Plan}
	t := newThirdsConv(&l, taps, c.Pixels(), c.K)
	t.left = l.takeHalves(t.leftHalves * pl.pool.threads)
	fl := flags(false, op.ReLU) | streams(len(y))
	pack := func(_, j int) { t.pack(j, w, c.R*c.S*c.C, true, func(tap int) int { return tap * c.C }) }
	block := func(worker, i int) {
		lo, hi := t.bounds(i)
		t.block(worker, lo, hi, x, y[lo*c.K:], bias, fl)
	}
	return func() {
		pl.pool.each(t.panels(), pack)
		pl.pool.each(t.blocks, block)
	}
}

// thirdsClass is a class of input pixels and the product that computes it, nil without taps.
type thirdsClass struct {
	class
	conv *thirdsConv
}

// thirdsBackward computes dx by classes of pixels, as backward does.
func (pl convolutions) thirdsBackward(op kernels.ConvBackwardData, dy, w, dx []float32) func() {
	l := layout{pl: pl.Plan}
	var classes []thirdsClass
	var items []item   // of a class, and its block
	rows, left := 0, 0 // the most of any class
	for _, c := range classesOf(op.Conv) {
		pixels := op.N * c.oh * c.ow
		t := thirdsClass{class: c}
		var taps []window
		for _, tap := range c.taps {
			taps = append(taps, window{h: op.OutH(), w: op.OutW(), c: op.K, oh: c.oh, ow: c.ow, r: 1, s: 1, stride: 1, dr: tap.di, ds: tap.dj})
		}
		if taps != nil {
			t.conv = newThirdsConv(&l, taps, pixels, op.C)
			rows, left = max(rows, ceil(t.conv.units, t.conv.blocks)*thirdsUnit), max(left, t.conv.leftHalves)
			for i := range t.conv.blocks {
				lo, hi := t.conv.bounds(i)
				items = append(items, item{len(classes), lo, hi})
			}
		} else if !op.Accumulate {
			for lo := 0; lo < pixels; lo += thirdsRows {
				items = append(items, item{len(classes), lo, min(lo+thirdsRows, pixels)})
			}
		}
		classes = append(classes, t)
	}
	var results region
	if op.Stride > 1 {
		results = l.take(rows * op.C * pl.pool.threads)
	}
	leftRows := l.takeHalves(left * pl.pool.threads)
	for _, c := range classes {
		if c.conv != nil {
			c.conv.left, c.conv.leftHalves = leftRows, left
		}
	}
	fl := flags(op.Accumulate, false)
	if op.Stride == 1 && !op.Accumulate {
		fl |= streams(len(dx))
	}
	panels := ceil(op.C, thirdsN)
	pack := func(_, i int) {
		c := &classes[i/panels]
		if c.conv != nil {
			c.conv.pack(i%panels, w, op.R*op.S*op.C, false, func(tap int) int { return c.taps[tap].t * op.C })
		}
	}
	block := func(worker, i int) {
		it := items[i]
		c := &classes[it.class]
		if op.Stride == 1 {
			c.conv.block(worker, it.lo, it.hi, dy, dx[it.lo*op.C:], nil, fl)
			return
		}
		var from []float32
		if c.conv != nil {
			from = pl.part(results, worker, rows*op.C)
			c.conv.block(worker, it.lo, it.hi, dy, from, nil, 0)
		}
		c.scatter(pl.pool.variant, &op, it.lo, it.hi, from, dx)
	}
	return func() {
		pl.pool.each(panels*len(classes), pack)
		pl.pool.each(len(items), block)
	}
}
