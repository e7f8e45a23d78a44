package cpu

import "dev.gpustall/kernels"

// band is some rows of output of a group of images: see bands.h.
type band struct {
	h, w, c, pad, oh, ow, k int
	group, images           int
	row, rows               int
	plane                   int
}

// What a band and the filters may take of a core's second-level cache of 2 MiB. Larger filters
// would be read from memory for each band.
const (
	bandBytes   = 1 << 20
	filterBytes = 1 << 20
)

// banded reports whether c is computed by bands.
func (pl convolutions) banded(c kernels.Conv) bool {
	b := band{c: c.C, k: c.K}
	return pl.pool.thirds() && c.R == 3 && c.S == 3 && c.Stride == 1 && c.Pad <= 2 && c.C%thirdsK == 0 && c.K%thirdsK == 0 &&
		2*b.filterSize() <= filterBytes
}

// bandConv is a 3x3 convolution by bands, forward or for the gradient of the input. The gradient
// is the convolution of dy with filters turned by 180 degrees.
type bandConv struct {
	pl                  *Plan
	band                // the largest
	back                bool
	n                   int // images
	groups, bands       int // bands of a group
	parts, packed       region
	x, filters, y, bias []float32
	flags               int
}

func (pl convolutions) byBands(c kernels.Conv, back bool, x, w, y, bias []float32, flags int) func() {
	b := &bandConv{pl: pl.Plan, back: back, n: c.N, x: x, filters: w, y: y, bias: bias, flags: flags}
	b.band = band{h: c.H, w: c.W, c: c.C, pad: c.Pad, oh: c.OutH(), ow: c.OutW(), k: c.K}
	if back {
		b.band = band{h: c.OutH(), w: c.OutW(), c: c.K, pad: 2 - c.Pad, oh: c.H, ow: c.W, k: c.C}
	}
	b.choose()
	l := layout{pl: pl.Plan}
	b.packed = l.takeHalves(b.filterSize())
	b.parts = l.takeHalves(b.splitSize() * pl.pool.threads)
	pack, item, parts := b.pack, b.item, b.k/thirdsN*b.c/thirdsK
	return func() {
		pl.pool.each(parts, pack)
		pl.pool.each(b.groups*b.bands, item)
	}
}

// positions is how many positions a tile of F(4,3) has. Each has three taps of filters.
const positions = 6

// filterSize returns how many bfloat16s the split filters take.
func (b *band) filterSize() int { return 3 * positions * rightThirds(b.k, b.c) }

// lines returns how many lines of a plane are used, with those that the last tiles read beyond.
func (b *band) lines() int {
	row := b.group * ceil(b.ow, 4)
	return align(b.rows*row, 16) + 2*row
}

// splitSize returns how many bfloat16s a split band takes.
func (b *band) splitSize() int { return 3 * positions * b.c * b.plane }

// choose finds the size of a group and the number of bands that take the least time, among those
// that give all threads equally many bands.
func (b *bandConv) choose() {
	threads, least := b.pl.pool.threads, 0
	for group := 1; group <= 16; group *= 2 {
		try := b.band
		try.group = group
		for bands := 1; bands <= b.oh; bands++ {
			try.rows = ceil(b.oh, bands)
			try.plane = 16 * (ceil(try.lines(), 16) | 1) // tiles of three planes do not meet in the first cache's sets
			groups := ceil(b.n, try.group)
			if size := 2 * try.splitSize(); size > bandBytes && bands < b.oh {
				continue
			}
			cost := ceil(groups*bands, threads)*try.cost() + try.filterSize()/threads/8
			if least == 0 || cost < least {
				least, b.band, b.groups, b.bands = cost, try, groups, bands
			}
		}
	}
}

// cost estimates the time of a band on one core, in ns: 75 for 32 channels and 32 outputs of a tile
// at one tap, 40 to transform and split a line, 200 to turn a tile's six positions into 32 outputs.
func (b *band) cost() int {
	panels, chunks := b.k/thirdsN, b.c/thirdsK
	row := b.group * ceil(b.ow, 4)
	tiles, most := ceil(b.rows*row, 16), ceil(row, 16)
	taps := 3 * tiles
	if row%16 == 0 { // those of the first and last row are left out
		taps -= 2 * b.pad * most * b.rows / b.oh
	}
	return chunks*(positions*taps*panels*75+b.lines()*40) + tiles*panels*200
}

// pack splits a panel's filters of 32 channels.
func (b *bandConv) pack(_, i int) {
	chunks := b.c / thirdsK
	b.packFilters(b.back, b.filters, i/chunks, i%chunks, b.pl.halvesAt(b.packed))
}

// at returns the i-th band and its first image. Where there is no such band it has no images.
func (b *bandConv) at(i int) (band, int) {
	it, first := b.band, i/b.bands*b.group
	lo, hi := split(b.oh, b.bands, i%b.bands)
	it.row, it.rows = lo, hi-lo
	it.images = min(b.group, max(b.n-first, 0))
	return it, min(first, b.n)
}

func (b *bandConv) item(worker, i int) {
	pl := b.pl
	it, first := b.at(i)
	next, later := b.at(i + pl.pool.threads)
	a := pl.halvesPart(b.parts, worker, b.splitSize())
	size := b.h * b.w * b.c
	it.split(b.x[first*size:], a)
	it.multiply(a, pl.halvesAt(b.packed), b.y[first*b.oh*b.ow*b.k:], b.bias, b.flags, &next, b.x[later*size:])
}
