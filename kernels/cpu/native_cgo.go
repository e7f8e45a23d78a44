//go:build cgo

package cpu

/*
#cgo CFLAGS: -O3 -Wall
#cgo !amd64,!arm64 LDFLAGS: -lm
#include "native.h"

static const struct kernels *set(int variant) {
#if defined(__x86_64__)
	if (variant == 3) return &kernels_avx512;
	if (variant == 2) return &kernels_avx2;
#endif
	return &kernels_generic;
}

static dim panel_of(int v) { return set(v)->panel; }

static void gemm_nn(int v, dim count, dim m, dim n, dim k, const float *a, dim lda, dim sa, const float *b, dim sb,
                    float *c, dim ldc, dim sc, const float *bias, dim flags) {
	for (dim i = 0; i < count; i++)
		set(v)->gemm_nn(m, n, k, a + i * sa, lda, b + i * sb, c + i * sc, ldc, bias, flags, i + 1 < count ? b + (i + 1) * sb : 0);
}
static void gemm_tn(int v, dim m, dim n, dim k, const float *a, dim lda, const float *b, dim ldb,
                    float *c, dim ldc, dim flags) {
	set(v)->gemm_tn(m, n, k, a, lda, b, ldb, c, ldc, flags);
}
static void gemm_rows(int v, dim m, dim n, dim k, const float *a, const float *b, float *c, dim flags, dim next) {
	set(v)->gemm_rows(m, n, k, a, b, c, flags, next);
}
static dim strip_of(int v, dim m) { return (m + set(v)->rows - 1) / set(v)->rows * set(v)->strip; }
static void gemm_strips(int v, dim m, dim n, dim k, const float *a, const float *b, dim ldb, dim step, float *c, dim ldc, dim flags) {
	set(v)->gemm_strips(m, n, k, a, b, ldb, step, c, ldc, flags);
}
static void pack_strips(int v, dim m, dim k, const float *a, dim lda, dim first, dim rows, float *out) {
	set(v)->pack_strips(m, k, a, lda, first, rows, out);
}
static void pack(int v, dim n, dim k, const float *b, dim ldb, dim transposed, dim first, dim end, float *out, dim step) {
	set(v)->pack(n, k, b, ldb, transposed, first, end, out, step);
}
static void narrow_forward(int v, struct window g, dim k, dim first, dim end, const float *x, const float *packed, const float *bias,
                           float *y, dim flags, float *scratch) {
	set(v)->narrow_forward(&g, k, first, end, x, packed, bias, y, flags, scratch);
}
static void narrow_weight(int v, struct window g, dim k, dim first, dim end, const float *x, const float *dy, float *sum, dim flags, float *scratch) {
	set(v)->narrow_weight(&g, k, first, end, x, dy, sum, flags, scratch);
}

static const struct filtering *filtering_of(int v, int stride) {
	return stride == 1 ? &set(v)->stride1 : &set(v)->stride2;
}

enum { INPUT, INPUT_BACK, SPREAD, OUTPUT, OUTPUT_BACK };
static void filter_tiles(int v, int stride, int what, dim h, dim w, dim c, dim pad, dim th, dim tw, dim half, dim first, dim end,
                         dim step, const float *from, float *to, const float *bias, dim flags) {
	struct tiles t = {h, w, c, pad, th, tw, first, end, step, half};
	const struct filtering *f = filtering_of(v, stride);
	switch (what) {
	case INPUT: f->input(&t, from, to); break;
	case INPUT_BACK: f->input_back(&t, from, to); break;
	case SPREAD: f->spread(&t, from, to); break;
	case OUTPUT: f->output(&t, from, to, bias, flags); break;
	case OUTPUT_BACK: f->output_back(&t, from, to, bias, flags); break;
	}
}
static void filter_weights(int v, int stride, int back, dim k, dim c, dim step, dim first, dim end, const float *w, float *u, dim flags) {
	const struct filtering *f = filtering_of(v, stride);
	if (back) f->filter_back(k, c, step, first, end, w, u, flags);
	else f->filter(k, c, step, first, end, w, u, flags);
}
static void filter_gather(int v, int stride, dim c, dim step, dim first, dim end, const float *u, float *dw) {
	filtering_of(v, stride)->gather(c, step, first, end, u, dw);
}

#cgo noescape gemm_nn
#cgo nocallback gemm_nn
#cgo noescape gemm_tn
#cgo nocallback gemm_tn
#cgo noescape gemm_rows
#cgo nocallback gemm_rows
#cgo noescape gemm_strips
#cgo nocallback gemm_strips
#cgo noescape pack_strips
#cgo nocallback pack_strips
#cgo noescape pack
#cgo nocallback pack
#cgo noescape gather
#cgo nocallback gather
#cgo noescape narrow_forward
#cgo nocallback narrow_forward
#cgo noescape narrow_weight
#cgo nocallback narrow_weight
#cgo noescape filter_tiles
#cgo nocallback filter_tiles
#cgo noescape filter_weights
#cgo nocallback filter_weights
#cgo noescape filter_gather
#cgo nocallback filter_gather
*/
import "C"

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// native reports whether the C kernels are built in.
const native = true

// best returns the widest instruction set that the processor and the system support. The compiler's
// runtime could tell as well, but not where another linker brings its own.
func best() variant {
	x86 := &cpu.X86
	switch {
	case !x86.HasAVX2 || !x86.HasFMA:
		return generic
	case x86.HasAVX512F && x86.HasAVX512BW && x86.HasAVX512DQ && x86.HasAVX512VL:
		return avx512
	}
	return avx2
}

func ptr(v []float32) *C.float { return (*C.float)(unsafe.Pointer(unsafe.SliceData(v))) }

// panel returns the width of a packed panel of gemmNN's B.
func (v variant) panel() int {
	if v == pureGo {
		return goPanel
	}
	return int(C.panel_of(C.int(v)))
}

// gemmNN computes count products c[m,n] (+)= a[m,k] b[k,n] (+ bias) (then ReLU)
// whose operands lie sa, sb and sc floats apart. b is packed; see native.h.
func (v variant) gemmNN(count, m, n, k int, a []float32, lda, sa int, b []float32, sb int, c []float32, ldc, sc int, bias []float32, flags int) {
	if v == pureGo {
		goGemmNN(count, m, n, k, a, lda, sa, b, sb, c, ldc, sc, bias, flags)
		return
	}
	C.gemm_nn(C.int(v), C.dim(count), C.dim(m), C.dim(n), C.dim(k), ptr(a), C.dim(lda), C.dim(sa), ptr(b), C.dim(sb),
		ptr(c), C.dim(ldc), C.dim(sc), ptr(bias), C.dim(flags))
}

// gemmTN computes c[m,n] (+)= the sum over p of a[p,m] b[p,n]; n is a multiple of 16.
func (v variant) gemmTN(m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc, flags int) {
	if v == pureGo {
		goGemmTN(m, n, k, a, lda, b, ldb, c, ldc, flags)
		return
	}
	C.gemm_tn(C.int(v), C.dim(m), C.dim(n), C.dim(k), ptr(a), C.dim(lda), ptr(b), C.dim(ldb), ptr(c), C.dim(ldc), C.dim(flags))
}

// gemmRows is gemmTN of whole rows, read in place. It fetches the next rows meanwhile.
func (v variant) gemmRows(m, n, k int, a, b, c []float32, flags, next int) {
	C.gemm_rows(C.int(v), C.dim(m), C.dim(n), C.dim(k), ptr(a), ptr(b), ptr(c), C.dim(flags), C.dim(next))
}

// strips returns how many floats each row of packed strips of m columns takes.
func (v variant) strips(m int) int { return int(C.strip_of(C.int(v), C.dim(m))) }

// packStrips packs rows first..first+rows of a[k,m] for gemmStrips. The slice a begins with them.
func (v variant) packStrips(m, k int, a []float32, lda, first, rows int, out []float32) {
	C.pack_strips(C.int(v), C.dim(m), C.dim(k), ptr(a), C.dim(lda), C.dim(first), C.dim(rows), ptr(out))
}

// gemmStrips is gemmTN with a in packed strips and b in panels step floats apart.
func (v variant) gemmStrips(m, n, k int, a, b []float32, ldb, step int, c []float32, ldc, flags int) {
	C.gemm_strips(C.int(v), C.dim(m), C.dim(n), C.dim(k), ptr(a), ptr(b), C.dim(ldb), C.dim(step), ptr(c), C.dim(ldc), C.dim(flags))
}

// pack packs panels first..end, step floats apart, of b[k,n] for gemmNN.
func (v variant) pack(n, k int, b []float32, ldb int, transposed bool, first, end int, out []float32, step int) {
	if v == pureGo {
		goPack(n, k, b, ldb, transposed, first, end, out, step)
		return
	}
	C.pack(C.int(v), C.dim(n), C.dim(k), ptr(b), C.dim(ldb), truth(transposed), C.dim(first), C.dim(end), ptr(out), C.dim(step))
}

func truth(b bool) C.dim {
	if b {
		return 1
	}
	return 0
}

// gather writes the windows of positions first..end as rows of ld floats.
func (v variant) gather(g *window, x []float32, first, end int, out []float32, ld int) {
	if v == pureGo {
		goGather(g, x, first, end, out, ld)
		return
	}
	n := g.native()
	C.gather(&n, ptr(x), C.dim(first), C.dim(end), ptr(out), C.dim(ld))
}

func (g *window) native() C.struct_window {
	return C.struct_window{h: C.dim(g.h), w: C.dim(g.w), c: C.dim(g.c), oh: C.dim(g.oh), ow: C.dim(g.ow),
		r: C.dim(g.r), s: C.dim(g.s), stride: C.dim(g.stride), pad: C.dim(g.pad), dr: C.dim(g.dr), ds: C.dim(g.ds)}
}

// narrowForward computes rows first..end of y, of one image. scratch is for padded rows of x.
func (v variant) narrowForward(g *window, k, first, end int, x, packed, bias, y []float32, flags int, scratch []float32) {
	C.narrow_forward(C.int(v), g.native(), C.dim(k), C.dim(first), C.dim(end), ptr(x), ptr(packed), ptr(bias), ptr(y), C.dim(flags), ptr(scratch))
}

// narrowWeight sets sum [r*s*c,k] to the contribution of rows first..end of dy, or adds it.
func (v variant) narrowWeight(g *window, k, first, end int, x, dy, sum []float32, flags int, scratch []float32) {
	C.narrow_weight(C.int(v), g.native(), C.dim(k), C.dim(first), C.dim(end), ptr(x), ptr(dy), ptr(sum), C.dim(flags), ptr(scratch))
}

func (v variant) tiles(what C.int, g *grid, first, end, step int, from, to, bias []float32, flags int) {
	C.filter_tiles(C.int(v), C.int(g.stride), what, C.dim(g.h), C.dim(g.w), C.dim(g.c), C.dim(g.pad), C.dim(g.th), C.dim(g.tw), C.dim(g.half),
		C.dim(first), C.dim(end), C.dim(step), ptr(from), ptr(to), ptr(bias), C.dim(flags))
}

// transformInput transforms the patches of x that tiles first..end read. For the gradient of the
// input they are patches of dy.
func (v variant) transformInput(back bool, g *grid, first, end, step int, x, out []float32) {
	v.tiles(C.INPUT+C.int(truth(back)), g, first, end, step, x, out, nil, 0)
}

// spread transforms the patches of dy for the filters' gradient.
func (v variant) spread(g *grid, first, end, step int, dy, out []float32) {
	v.tiles(C.SPREAD, g, first, end, step, dy, out, nil, 0)
}

// transformOutput turns products back into patches of y or dx.
func (v variant) transformOutput(back bool, g *grid, first, end, step int, m, y, bias []float32, flags int) {
	v.tiles(C.OUTPUT+C.int(truth(back)), g, first, end, step, m, y, bias, flags)
}

// transformFilter transforms panels first..end of the filters w [k,9,c]; back
// turns them for the gradient of the input.
func (v variant) transformFilter(back bool, stride, k, c, step, first, end int, w, u []float32) {
	C.filter_weights(C.int(v), C.int(stride), C.int(truth(back)), C.dim(k), C.dim(c), C.dim(step), C.dim(first), C.dim(end), ptr(w), ptr(u), C.dim(streams(len(u))))
}

// gatherFilter turns rows first..end of the 36 products into dw [k,9,c].
func (v variant) gatherFilter(stride, c, step, first, end int, u, dw []float32) {
	C.filter_gather(C.int(v), C.int(stride), C.dim(c), C.dim(step), C.dim(first), C.dim(end), ptr(u), ptr(dw))
}
