package cpu

import "dev.gpustall/kernels"

const (
	// blockFloats is the size of a worker's block of gathered rows: under half of a 1 MiB
	// second-level cache, so that a panel of weights fits beside it.
	blockFloats = 96 << 10
	// inPlaceFloats is the same for rows that are read in place, which cost no writing.
	inPlaceFloats = 172 << 10
)

// rowsFor returns how many rows of k floats a worker takes at a time. It is a multiple of
// 14, the height of the tallest micro-kernel, and at most 14 * most.
func rowsFor(floats, k, most int) int { return 14 * min(max(floats/k/14, 1), most) }

// The most units of a block. A result that is added to is read as well, so its blocks are
// smaller.
const (
	mostUnits  = 16
	addedUnits = 8
)

// gatherSlack is how many floats gather may write behind its last row.
const gatherSlack = 16

// forward computes y = im2col(x) w^T by blocks of output pixels. Each block is gathered into
// cache just before its product. With dy in place of x, and w not transposed, it computes the
// gradient of the input of a 1x1 convolution.
type forward struct {
	pl             *Plan
	g              window
	pixels, k, kk  int // kk: R*S*C, the inner dimension
	rows           int // the most of a block
	units, blocks  int // of rowUnit pixels; blocks of units
	packed, a      region
	direct, turned bool // x's rows are read in place; w is transposed

	x, w, y, bias []float32
	flags         int
}

// inPlace reports whether the matrix of c's windows is x itself, as it lies in memory.
func inPlace(c kernels.Conv) bool {
	return c.R == 1 && c.S == 1 && c.Stride == 1 && c.Pad == 0
}

func newForward(pl *Plan, c kernels.Conv) *forward {
	f := &forward{pl: pl, pixels: c.Pixels(), k: c.K, kk: c.R * c.S * c.C, direct: inPlace(c), turned: true}
	f.g = window{h: c.H, w: c.W, c: c.C, oh: c.OutH(), ow: c.OutW(), r: c.R, s: c.S, stride: c.Stride, pad: c.Pad}
	f.lay(mostUnits)
	return f
}

// newPointwiseBack returns the gradient of the input of a 1x1 convolution for which inPlace holds.
func newPointwiseBack(pl *Plan, c kernels.ConvBackwardData) *forward {
	f := &forward{pl: pl, pixels: c.Pixels(), k: c.C, kk: c.K, direct: true}
	if c.Accumulate {
		f.lay(addedUnits)
	} else {
		f.lay(mostUnits)
	}
	return f
}

// lay cuts the pixels into blocks of at most that many units, equally many for each thread, and
// takes scratch memory.
func (f *forward) lay(most int) {
	l, threads, floats := layout{pl: f.pl}, f.pl.pool.threads, blockFloats
	if f.direct {
		floats = inPlaceFloats
	}
	f.units = ceil(f.pixels, rowUnit)
	f.blocks = min(align(ceil(f.units, rowsFor(floats, f.kk, most)/rowUnit), threads), f.units)
	f.rows = ceil(f.units, f.blocks) * rowUnit
	f.packed = l.take(align(f.k, f.pl.pool.variant.panel()) * f.kk)
	if !f.direct {
		f.a = l.take((f.rows*f.kk + gatherSlack) * threads)
	}
}

func (f *forward) bind(x, w, y, bias []float32, flags int) func() {
	if f.direct {
		flags |= cold
		if flags&accumulate == 0 {
			flags |= streams(f.pixels * f.k)
		}
	}
	f.x, f.w, f.y, f.bias, f.flags = x, w, y, bias, flags
	pool, panels, blocks := f.pl.pool, ceil(f.k, f.pl.pool.variant.panel()), f.blocks
	pack, block := f.pack, f.block
	return func() {
		pool.each(panels, pack)
		pool.each(blocks, block)
	}
}

func (f *forward) pack(_, j int) {
	v, ld := f.pl.pool.variant, f.kk
	if !f.turned {
		ld = f.k
	}
	v.pack(f.k, f.kk, f.w, ld, f.turned, j, j+1, f.pl.at(f.packed), f.kk*v.panel())
}

func (f *forward) block(worker, i int) {
	v := f.pl.pool.variant
	lo, hi := split(f.units, f.blocks, i)
	lo, hi = lo*rowUnit, min(hi*rowUnit, f.pixels)
	var a []float32
	if f.direct {
		a = f.x[lo*f.kk:]
	} else {
		a = f.pl.part(f.a, worker, f.rows*f.kk+gatherSlack)
		v.gather(&f.g, f.x, lo, hi, a, f.kk)
	}
	v.gemmNN(1, hi-lo, f.k, f.kk, a, f.kk, 0, f.pl.at(f.packed), 0, f.y[lo*f.k:], f.k, 0, f.bias, f.flags)
}

// backward computes dx. It sorts the input's pixels into stride*stride classes by their position
// modulo the stride. All pixels of a class meet the same taps, so each class is one product in
// which no zero is multiplied.
type backward struct {
	pl        *Plan
	op        kernels.ConvBackwardData
	classes   []class
	rows      int // of a block, at the most
	a, c      region
	items     []item
	inPlace   bool // the one class that has taps reads dy's rows in place
	dy, w, dx []float32
}

// class is the pixels (h0 + i*stride, w0 + j*stride) of every image.
type class struct {
	h0, w0, oh, ow int
	taps           []tap
	packed         region
}

// tap is filter position t. For the class's pixel (i, j) it reads dy at (i+di, j+dj).
type tap struct{ di, dj, t int }

type item struct{ class, lo, hi int }

// classesOf returns the classes of pixels of c's input.
func classesOf(c kernels.Conv) []class {
	var classes []class
	for h0 := range min(c.Stride, c.H) {
		for w0 := range min(c.Stride, c.W) {
			to := class{h0: h0, w0: w0, oh: ceil(c.H-h0, c.Stride), ow: ceil(c.W-w0, c.Stride)}
			for r := range c.R {
				for s := range c.S {
					h, w := h0+c.Pad-r, w0+c.Pad-s
					if h%c.Stride == 0 && w%c.Stride == 0 {
						to.taps = append(to.taps, tap{h / c.Stride, w / c.Stride, r*c.S + s})
					}
				}
			}
			classes = append(classes, to)
		}
	}
	return classes
}

func (pl convolutions) dataByClass(op kernels.ConvBackwardData, dy, w, dx []float32) func() {
	if inPlace(op.Conv) {
		return newPointwiseBack(pl.Plan, op).bind(dy, w, dx, nil, flags(op.Accumulate, false))
	}
	b := &backward{pl: pl.Plan, op: op, dy: dy, w: w, dx: dx}
	b.rows = rowsFor(blockFloats, op.R*op.S*op.K, mostUnits)
	l := layout{pl: pl.Plan}
	v := pl.pool.variant
	b.classes = classesOf(op.Conv)
	for i := range b.classes {
		c := &b.classes[i]
		c.packed = l.take(align(op.C, v.panel()) * len(c.taps) * op.K)
		pixels := op.N * c.oh * c.ow
		for lo := 0; lo < pixels; lo += b.rows {
			b.items = append(b.items, item{i, lo, min(lo+b.rows, pixels)})
		}
	}
	b.inPlace = op.R == 1 && op.S == 1 && op.Pad == 0
	if !b.inPlace {
		b.a = l.take(b.rows * op.R * op.S * op.K * pl.pool.threads)
	}
	b.c = l.take(b.rows * op.C * pl.pool.threads)
	pool, panels, items := pl.pool, ceil(op.C, v.panel())*len(b.classes), len(b.items)
	pack, block := b.pack, b.block
	return func() {
		pool.each(panels, pack)
		pool.each(items, block)
	}
}

// pack packs one panel of one class: rows (tap, k), columns c.
func (b *backward) pack(_, i int) {
	v, op := b.pl.pool.variant, &b.op
	c, j := &b.classes[i%len(b.classes)], i/len(b.classes)
	step := len(c.taps) * op.K * v.panel()
	for n, t := range c.taps {
		v.pack(op.C, op.K, b.w[t.t*op.C:], op.R*op.S*op.C, false, j, j+1, b.pl.at(c.packed)[n*op.K*v.panel():], step)
	}
}

func (b *backward) block(worker, i int) {
	v, op, it := b.pl.pool.variant, &b.op, b.items[i]
	c := &b.classes[it.class]
	kk := len(c.taps) * op.K
	out := b.pl.part(b.c, worker, b.rows*op.C)
	if kk > 0 {
		var a []float32
		if b.inPlace {
			a = b.dy[it.lo*op.K:]
		} else {
			a = b.pl.part(b.a, worker, b.rows*op.R*op.S*op.K)
			b.gather(c, it.lo, it.hi, a)
		}
		v.gemmNN(1, it.hi-it.lo, op.C, kk, a, kk, 0, b.pl.at(c.packed), 0, out, op.C, 0, nil, 0)
	} else if op.Accumulate {
		return
	}
	c.scatter(v, op, it.lo, it.hi, out, b.dx)
}

// scatter writes or adds the rows of the class's pixels lo..hi to dx. A class without taps has
// no rows, and its pixels are set to zero.
func (c *class) scatter(v variant, op *kernels.ConvBackwardData, lo, hi int, from, dx []float32) {
	for p := lo; p < hi; p++ {
		n, h, w := p/(c.oh*c.ow), c.h0+p/c.ow%c.oh*op.Stride, c.w0+p%c.ow*op.Stride
		to := dx[((n*op.H+h)*op.W+w)*op.C:][:op.C]
		if len(c.taps) == 0 {
			clear(to)
			continue
		}
		row := from[(p-lo)*op.C:][:op.C]
		if op.Accumulate {
			add(v, to, row, to, 0)
		} else {
			copy(to, row)
		}
	}
}

// gather copies the rows of dy that the taps of the class's pixels lo..hi read.
func (b *backward) gather(c *class, lo, hi int, a []float32) {
	op := &b.op
	oh, ow := op.OutH(), op.OutW()
	for p := lo; p < hi; p++ {
		n, i, j := p/(c.oh*c.ow), p/c.ow%c.oh, p%c.ow
		for _, t := range c.taps {
			y, x := i+t.di, j+t.dj
			to := a[:op.K]
			a = a[op.K:]
			if y < 0 || y >= oh || x < 0 || x >= ow {
				clear(to)
				continue
			}
			copy(to, b.dy[((n*oh+y)*ow+x)*op.K:])
		}
	}
}
