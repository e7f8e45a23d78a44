//go:build cgo

package cpu

import "dev.gpustall/kernels"

// narrowFloats is about how many floats of padded rows a worker holds. Its rows of y, or dy, stay
// in the second-level cache beside them.
const narrowFloats = 16 << 10

// narrow reports whether c is a convolution of few channels that narrow.h computes.
func (pl convolutions) narrow(c kernels.Conv) bool {
	v := pl.pool.variant
	return v != pureGo && c.R*c.S > 1 && c.C < 16 && c.K%v.panel() == 0 && c.K%16 == 0
}

// bands cuts the rows of the output into ranges within an image.
type bands struct {
	pl      *Plan
	c       kernels.Conv
	g       window
	each, n int // bands of an image, and of all images
	padded  region
	floats  int // of a worker's padded rows
}

func newBands(l *layout, c kernels.Conv) *bands {
	b := &bands{pl: l.pl, c: c, g: windowOf(c)}
	ld := (c.W + 2*c.Pad) * c.C
	rows := max((narrowFloats/ld-c.R)/c.Stride+1, 1)
	b.each = ceil(c.OutH(), rows)
	b.n = c.N * b.each
	b.floats = align(((ceil(c.OutH(), b.each)-1)*c.Stride+c.R)*ld, 16)
	b.padded = l.take(b.floats * l.pl.pool.threads)
	return b
}

// rows returns the rows of band i.
func (b *bands) rows(i int) (first, end int) {
	lo, hi := split(b.c.OutH(), b.each, i%b.each)
	return i/b.each*b.c.OutH() + lo, i/b.each*b.c.OutH() + hi
}

func (b *bands) scratch(worker int) []float32 { return b.pl.part(b.padded, worker, b.floats) }

func (pl convolutions) narrowForward(c kernels.Conv, x, w, y, bias []float32, flags int) func() {
	l := layout{pl: pl.Plan}
	b, v, kk := newBands(&l, c), pl.pool.variant, c.R*c.S*c.C
	packed := l.take(c.K * kk)
	pack := func(_, j int) { v.pack(c.K, kk, w, kk, true, j, j+1, pl.at(packed), kk*v.panel()) }
	band := func(worker, i int) {
		first, end := b.rows(i)
		v.narrowForward(&b.g, c.K, first, end, x, pl.at(packed), bias, y, flags, b.scratch(worker))
	}
	return func() {
		pl.pool.each(c.K/v.panel(), pack)
		pl.pool.each(b.n, band)
	}
}

// narrowWeight sums by groups of bands, in an order that is the same whichever thread comes first.
// A sum is dw transposed.
func (pl convolutions) narrowWeight(c kernels.Conv, x, dy, dw, dbias []float32) func() {
	l := layout{pl: pl.Plan}
	b, v, kk := newBands(&l, c), pl.pool.variant, c.R*c.S*c.C
	groups := min(8*pl.pool.threads, b.n)
	sums, bias := l.take(groups*kk*c.K), newBiasSums(pl.Plan, groups, c.K, dbias)
	group := func(worker, i int) {
		lo, hi := split(b.n, groups, i)
		sum := pl.part(sums, i, kk*c.K)
		for n := lo; n < hi; n++ {
			first, end := b.rows(n)
			v.narrowWeight(&b.g, c.K, first, end, x, dy, sum, flags(n > lo, false), b.scratch(worker))
			bias.add(i, dy[first*c.OutW()*c.K:end*c.OutW()*c.K])
		}
	}
	return func() {
		bias.reset()
		pl.pool.each(groups, group)
		all := pl.at(sums)
		for k := range c.K {
			for j := range kk {
				var s float32
				for i := j*c.K + k; i < len(all); i += kk * c.K {
					s += all[i]
				}
				dw[k*kk+j] = s
			}
		}
		bias.finish()
	}
}
