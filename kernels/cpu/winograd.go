//go:build cgo

package cpu

import "dev.gpustall/kernels"

// filters is the number of transformed 3x3 filters: six along each axis, with
// stride 1 (winograd.h) as with stride 2 (stride2.h).
const filters = 36

// side returns the number of positions along an axis of a transformed tile. With
// stride 2 the last four share the last filter.
func side(stride int) int {
	if stride == 1 {
		return 6
	}
	return 9
}

// unitsFor returns how many units of tiles a worker takes through all three stages at a time. They
// are few, so that they stay in its second-level cache. They are more where the filters do not fit
// there and should be read seldom.
func unitsFor(c kernels.Conv) int {
	switch {
	case c.C*c.K > 256*256:
		return 6
	case c.Stride == 2:
		return 2
	}
	return 3
}

// winoConv is a 3x3 convolution by minimal filtering. It goes forward, or with turned filters
// computes the gradient of the input.
type winoConv struct {
	pl            *Plan
	back          bool
	stride, side  int
	k, c          int // of the filters
	in, out       grid
	tiles, units  int // units of rowUnit tiles
	blocks, block int // how many blocks of tiles, and the most tiles of one
	ustep         int // floats between filters in u
	vstep, mstep  int // floats between positions in v and in m
	u, v, m       region
	panels        int
	x, w, y, bias []float32
	flags         int
}

func (pl convolutions) winoConv(c kernels.Conv, back bool, x, w, y, bias []float32, flags int) func() {
	wc := &winoConv{pl: pl.Plan, back: back, stride: c.Stride, side: side(c.Stride), k: c.K, c: c.C, x: x, w: w, y: y, bias: bias, flags: flags}
	oh, ow := c.OutH(), c.OutW()
	wc.in = grid{h: c.H, w: c.W, c: c.C, pad: c.Pad, th: ceil(oh, 4), tw: ceil(ow, 4), stride: c.Stride}
	wc.out = grid{h: oh, w: ow, c: c.K, th: wc.in.th, tw: wc.in.tw, stride: c.Stride}
	if back { // of dy, with padding 2-pad at stride 1 and none at stride 2
		t := 4 * c.Stride
		wc.in = grid{h: oh, w: ow, c: c.K, th: ceil(c.H, t), tw: ceil(c.W, t), stride: c.Stride}
		if c.Stride == 1 {
			wc.in.pad = 2 - c.Pad
		}
		wc.out = grid{h: c.H, w: c.W, c: c.C, th: wc.in.th, tw: wc.in.tw, stride: c.Stride}
	}
	threads, panel := pl.pool.threads, pl.pool.variant.panel()
	wc.tiles = c.N * wc.in.th * wc.in.tw
	wc.units = ceil(wc.tiles, rowUnit)
	wc.blocks = min(align(ceil(wc.units, unitsFor(c)), threads), wc.units)
	wc.block = ceil(wc.units, wc.blocks) * rowUnit
	wc.panels = ceil(wc.out.c, panel)
	wc.ustep = skew(wc.panels * panel * wc.in.c)
	wc.vstep, wc.mstep = skew(wc.block*wc.in.c), skew(wc.block*wc.out.c)
	l, workers := layout{pl: pl.Plan}, min(threads, wc.blocks)
	wc.u = l.take(filters * wc.ustep)
	wc.v = l.take(wc.side * wc.side * wc.vstep * workers)
	wc.m = l.take(wc.side * wc.side * wc.mstep * workers)
	filter, tiles := wc.filter, wc.tile
	return func() {
		pl.pool.each(wc.panels, filter)
		pl.pool.each(wc.blocks, tiles)
	}
}

func (wc *winoConv) filter(_, j int) {
	wc.pl.pool.variant.transformFilter(wc.back, wc.stride, wc.k, wc.c, wc.ustep, j, j+1, wc.w, wc.pl.at(wc.u))
}

func (wc *winoConv) tile(worker, i int) {
	isa, positions := wc.pl.pool.variant, wc.side*wc.side
	lo, hi := split(wc.units, wc.blocks, i)
	lo, hi = lo*rowUnit, min(hi*rowUnit, wc.tiles)
	u, v, m := wc.pl.at(wc.u), wc.pl.part(wc.v, worker, positions*wc.vstep), wc.pl.part(wc.m, worker, positions*wc.mstep)
	isa.transformInput(wc.back, &wc.in, lo, hi, wc.vstep, wc.x, v)
	multiply := func(p, count, filter, ustep int) {
		isa.gemmNN(count, hi-lo, wc.out.c, wc.in.c, v[p*wc.vstep:], wc.in.c, wc.vstep, u[filter*wc.ustep:], ustep,
			m[p*wc.mstep:], wc.out.c, wc.mstep, nil, 0)
	}
	if wc.stride == 1 {
		multiply(0, positions, 0, wc.ustep)
	} else {
		for r := range wc.side {
			f := min(r, 5) * 6
			multiply(r*wc.side, 5, f, wc.ustep)
			multiply(r*wc.side+5, 4, f+5, 0)
		}
	}
	isa.transformOutput(wc.back, &wc.out, lo, hi, wc.mstep, m, wc.y, wc.bias, wc.flags)
}
