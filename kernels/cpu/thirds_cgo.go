//go:build cgo

package cpu

/*
#include "thirds.h"

#cgo noescape thirds_tap
#cgo nocallback thirds_tap
#cgo noescape thirds_pairs
#cgo nocallback thirds_pairs
#cgo noescape thirds_left
#cgo nocallback thirds_left
#cgo noescape thirds_right
#cgo nocallback thirds_right
#cgo noescape thirds_gemm
#cgo nocallback thirds_gemm
*/
import "C"

// packLeftThirds packs the columns of a[k,m] as rows, in blocks of 16.
func packLeftThirds(m, k int, a []float32, lda int, out []uint16) {
	C.thirds_left(C.dim(m), C.dim(k), ptr(a), C.dim(lda), halfPtr(out))
}

// packRightThirds packs panels first..end, step apart, of b[k,n] or, turned, b[n,k].
func packRightThirds(n, k int, b []float32, ldb int, turned bool, first, end int, out []uint16, step int) {
	C.thirds_right(C.dim(n), C.dim(k), ptr(b), C.dim(ldb), truth(turned), C.dim(first), C.dim(end), halfPtr(out), C.dim(step))
}

// gemmThirds computes c[m,n] (+)= a b (+ bias) (then ReLU) of packed operands. a's blocks lie
// block apart, b's panels panel apart.
func gemmThirds(m, n, k int, a []uint16, block int, b []uint16, panel int, c []float32, ldc int, bias []float32, flags int) {
	gemmThirdsAhead(m, n, k, a, block, b, panel, c, ldc, bias, flags, nil)
}

// gemmThirdsAhead is gemmThirds that fetches soon into the cache meanwhile.
func gemmThirdsAhead(m, n, k int, a []uint16, block int, b []uint16, panel int, c []float32, ldc int, bias []float32, flags int, soon []float32) {
	C.thirds_gemm(C.dim(m), C.dim(n), C.dim(k), halfPtr(a), C.dim(block), halfPtr(b), C.dim(panel), ptr(c), C.dim(ldc), ptr(bias), C.dim(flags),
		ptr(soon), C.dim(len(soon)/16))
}

// packTapThirds packs channels first..end of what g's first tap reads for positions from..to, in
// blocks of 16 rows that lie block apart.
func packTapThirds(g *window, x []float32, from, to, first, end int, out []uint16, block int) {
	n := g.native()
	C.thirds_tap(&n, ptr(x), C.dim(from), C.dim(to), C.dim(first), C.dim(end), halfPtr(out), C.dim(block))
}

// packTapPairs packs the same as panels, step apart. Positions are their inner dimension.
func packTapPairs(g *window, x []float32, from, to, first, end int, out []uint16, step int) {
	n := g.native()
	C.thirds_pairs(&n, ptr(x), C.dim(from), C.dim(to), C.dim(first), C.dim(end), halfPtr(out), C.dim(step))
}
