//go:build cgo

package cpu

/*
#include "bands.h"

static void multiply_band(const struct band *b, const half *a, const half *filters, float *y, const float *bias, dim flags,
                          const float *next, dim runs, dim lines, dim step) {
	struct ahead ahead = {next, runs, lines, step};
	band_multiply(b, a, filters, y, bias, flags, &ahead);
}

#cgo noescape band_split
#cgo nocallback band_split
#cgo noescape band_filters
#cgo nocallback band_filters
#cgo noescape multiply_band
#cgo nocallback multiply_band
*/
import "C"

func (b *band) native() C.struct_band {
	return C.struct_band{h: C.dim(b.h), w: C.dim(b.w), c: C.dim(b.c), pad: C.dim(b.pad), oh: C.dim(b.oh), ow: C.dim(b.ow), k: C.dim(b.k),
		group: C.dim(b.group), images: C.dim(b.images), row: C.dim(b.row), rows: C.dim(b.rows), plane: C.dim(b.plane)}
}

// split splits what b reads of x into bfloat16s. x begins with b's first image.
func (b *band) split(x []float32, out []uint16) {
	n := b.native()
	C.band_split(&n, ptr(x), halfPtr(out))
}

// packFilters splits a panel's filters of a chunk of channels.
func (b *band) packFilters(back bool, w []float32, panel, chunk int, out []uint16) {
	n := b.native()
	C.band_filters(&n, truth(back), ptr(w), C.dim(panel), C.dim(chunk), halfPtr(out))
}

// multiply computes band b of y, and fetches what band next reads of x into the cache meanwhile.
// y begins with b's first image, x with that of next.
func (b *band) multiply(a, filters []uint16, y, bias []float32, flags int, next *band, x []float32) {
	n := b.native()
	lo, hi := max(next.row-next.pad, 0), min(next.row-next.pad+next.rows+2, next.h)
	size := next.w * next.c
	if next.images > 0 {
		x = x[lo*size:]
	}
	C.multiply_band(&n, halfPtr(a), halfPtr(filters), ptr(y), ptr(bias), C.dim(flags),
		ptr(x), C.dim(next.images), C.dim((hi-lo)*size/16), C.dim(next.h*size))
}
