//go:build cgo

package cpu

/*
#include "dots.h"

static void gemm(int how, dim m, dim n, dim k, const half *a, dim lda, dim block, dim step, const half *b, void *c, dim ldc,
                 const float *bias, dim flags) {
	struct rows16 rows = {a, lda, block, step};
	dots_gemm(how, m, n, k, &rows, b, c, ldc, bias, flags);
}

#cgo noescape gemm
#cgo nocallback gemm
#cgo noescape pair_tap
#cgo nocallback pair_tap
#cgo noescape pair_rows
#cgo nocallback pair_rows
#cgo noescape turn_rows
#cgo nocallback turn_rows
#cgo noescape scatter_rows
#cgo nocallback scatter_rows
*/
import "C"

import "unsafe"

// bestDots returns the fastest instructions that the processor and the system support.
func bestDots() dots { return dots(C.dots_best()) }

// gemm computes c[m,n] (+)= a[m,k] b (+ bias) (then ReLU); see dots.h.
func gemm[T float32 | uint16](d dots, m, n, k int, a rows16, b []uint16, c []T, ldc int, bias []float32, flags int) {
	if unsafe.Sizeof(c[0]) == 2 {
		flags |= flagHalves
	}
	C.gemm(C.int(d), C.dim(m), C.dim(n), C.dim(k), halfPtr(a.p), C.dim(a.ld), C.dim(a.block), C.dim(a.step), halfPtr(b),
		unsafe.Pointer(unsafe.SliceData(c)), C.dim(ldc), ptr(bias), C.dim(flags))
}

// pairRows packs panels first..end, step apart, of b[k,n] for gemm.
func pairRows(n, k int, b []uint16, ldb, first, end int, out []uint16, step int) {
	C.pair_rows(C.dim(n), C.dim(k), halfPtr(b), C.dim(ldb), C.dim(first), C.dim(end), halfPtr(out), C.dim(step))
}

// pairTap packs channels first..end of what g's first tap reads for positions from..to.
func pairTap(g *window, x []uint16, from, to, first, end int, out []uint16, step int) {
	n := g.native()
	C.pair_tap(&n, halfPtr(x), C.dim(from), C.dim(to), C.dim(first), C.dim(end), halfPtr(out), C.dim(step))
}

// turnRows makes a left operand whose rows are the columns of b[k,n].
func turnRows(n, k int, b []uint16, ldb int, out []uint16, block int) {
	C.turn_rows(C.dim(n), C.dim(k), halfPtr(b), C.dim(ldb), halfPtr(out), C.dim(block))
}

// scatterRows writes rows of class c of op's pixels into dx, or adds them.
func scatterRows(first, end, oh, ow, h, w, h0, w0, stride, c int, from, to []uint16, flags int) {
	C.scatter_rows(C.dim(first), C.dim(end), C.dim(oh), C.dim(ow), C.dim(h), C.dim(w), C.dim(h0), C.dim(w0), C.dim(stride), C.dim(c),
		halfPtr(from), halfPtr(to), C.dim(flags))
}
