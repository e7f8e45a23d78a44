//go:build cgo

package cpu

/*
#include "native.h"

#if defined(__x86_64__)
#define SET(v) ((v) == 3 ? &kernels_avx512 : (v) == 2 ? &kernels_avx2 : &kernels_generic)
#else
#define SET(v) (&kernels_generic)
#endif

static void add_columns(int v, dim rows, dim c, const float *x, double *sum) { SET(v)->add_columns(rows, c, x, sum); }
#define NORM(v, halves, f, ...) ((halves) ? SET(v)->half_norms.f(__VA_ARGS__) : SET(v)->norms.f(__VA_ARGS__))
static void moments(int v, int halves, dim rows, dim c, const void *x, double *mean, double *m2) {
	NORM(v, halves, moments, rows, c, x, mean, m2);
}
static void normalise(int v, int halves, dim rows, dim c, const void *x, const float *mean, const float *scale,
                      const float *beta, const void *residual, void *y, dim flags) {
	NORM(v, halves, normalise, rows, c, x, mean, scale, beta, residual, y, flags);
}
static void norm_sums(int v, int halves, dim rows, dim c, const void *dy, const void *x, const void *y, const float *mean,
                      double *sum, double *dot) {
	NORM(v, halves, sums, rows, c, dy, x, y, mean, sum, dot);
}
static void norm_back(int v, int halves, dim rows, dim c, const void *dy, const void *x, const void *y, const float *mean,
                      const float *scale, const float *offset, const float *slope, void *dx, void *dres, dim flags) {
	NORM(v, halves, back, rows, c, dy, x, y, mean, scale, offset, slope, dx, dres, flags);
}
static void widen(int v, dim n, const half *from, float *to) { SET(v)->widen(n, from, to); }
static void narrow(int v, dim n, const float *from, half *to) { SET(v)->narrow(n, from, to); }
static void add(int v, dim n, const float *a, const float *b, float *y, dim flags) { SET(v)->add(n, a, b, y, flags); }
static void relu_back(int v, dim n, const float *dy, const float *y, float *dx) { SET(v)->relu_back(n, dy, y, dx); }
static void update(int v, int rule, dim n, float *w, const float *g, float *a, float *b, const struct settings *h) {
	SET(v)->update(rule, n, w, g, a, b, h);
}
static void max_pool(int v, dim h, dim w, dim c, dim oh, dim ow, dim size, dim stride, dim pad,
                     dim t, dim ot, dim deep, dim step, dim first, dim end,
                     const float *x, float *y, uint8_t *index) {
	struct pool p = {h, w, c, oh, ow, size, stride, pad, t, ot, deep, step};
	SET(v)->max_pool(&p, first, end, x, y, index);
}
static void max_pool_back(int v, dim h, dim w, dim c, dim oh, dim ow, dim size, dim stride, dim pad,
                     dim t, dim ot, dim deep, dim step, dim first, dim end,
                          const float *dy, const uint8_t *index, float *dx) {
	struct pool p = {h, w, c, oh, ow, size, stride, pad, t, ot, deep, step};
	SET(v)->max_pool_back(&p, first, end, dy, index, dx);
}
static void spread_mean(int v, dim rows, dim c, float factor, const float *dy, float *dx) {
	SET(v)->spread_mean(rows, c, factor, dy, dx);
}

static void stack_frames(int v, dim back, dim t, dim ot, dim pixels, dim c, dim taps, dim pad, dim first, dim end, const float *from, float *to) {
	struct frames f = {t, ot, pixels, c, taps, pad};
	(back ? SET(v)->stack_frames_back : SET(v)->stack_frames)(&f, first, end, from, to);
}

#cgo noescape stack_frames
#cgo nocallback stack_frames
#cgo noescape add_columns
#cgo nocallback add_columns
#cgo noescape moments
#cgo nocallback moments
#cgo noescape normalise
#cgo nocallback normalise
#cgo noescape norm_sums
#cgo nocallback norm_sums
#cgo noescape norm_back
#cgo nocallback norm_back
#cgo noescape widen
#cgo nocallback widen
#cgo noescape narrow
#cgo nocallback narrow
#cgo noescape add
#cgo nocallback add
#cgo noescape relu_back
#cgo nocallback relu_back
#cgo noescape update
#cgo nocallback update
#cgo noescape max_pool
#cgo nocallback max_pool
#cgo noescape max_pool_back
#cgo nocallback max_pool_back
#cgo noescape spread_mean
#cgo nocallback spread_mean
*/
import "C"

import (
	"unsafe"

	"dev.gpustall/kernels"
)

func doubles(v []float64) *C.double { return (*C.double)(unsafe.Pointer(unsafe.SliceData(v))) }
func halfPtr(v []uint16) *C.half    { return (*C.half)(unsafe.Pointer(unsafe.SliceData(v))) }
func octets(v []byte) *C.uint8_t    { return (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(v))) }

// addColumns adds the columns of x, rows of c, to sums.
func (v variant) addColumns(x []float32, c int, sums []float64) {
	if v == pureGo {
		goAddColumns(x, c, sums)
		return
	}
	C.add_columns(C.int(v), C.dim(len(x)/c), C.dim(c), ptr(x), doubles(sums))
}

// real is an element of a tensor: a float32 or a bfloat16.
type real interface{ float32 | uint16 }

func at[T real](v []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(v)) }

// halved is 1 of bfloat16s.
func halved[T real]() C.int {
	var x T
	return C.int(2 / unsafe.Sizeof(x))
}

func moments[T real](v variant, x []T, c int, mean, m2 []float64) {
	C.moments(C.int(v), halved[T](), C.dim(len(x)/c), C.dim(c), at(x), doubles(mean), doubles(m2))
}

func normalise[T real](v variant, rows, c int, x []T, mean, scale, beta []float32, residual, y []T, flags int) {
	C.normalise(C.int(v), halved[T](), C.dim(rows), C.dim(c), at(x), ptr(mean), ptr(scale), ptr(beta), at(residual), at(y), C.dim(flags))
}

func normSums[T real](v variant, rows, c int, dy, x, y []T, mean []float32, sum, dot []float64) {
	C.norm_sums(C.int(v), halved[T](), C.dim(rows), C.dim(c), at(dy), at(x), at(y), ptr(mean), doubles(sum), doubles(dot))
}

func normBack[T real](v variant, rows, c int, dy, x, y []T, mean, scale, offset, slope []float32, dx, dres []T, flags int) {
	C.norm_back(C.int(v), halved[T](), C.dim(rows), C.dim(c), at(dy), at(x), at(y), ptr(mean), ptr(scale), ptr(offset), ptr(slope), at(dx), at(dres), C.dim(flags))
}

// widen and narrow convert between bf16 and float32.
func (v variant) widen(from []uint16, to []float32) {
	if v == pureGo {
		goWiden(from, to)
		return
	}
	C.widen(C.int(v), C.dim(len(from)), halfPtr(from), ptr(to))
}

func (v variant) narrow(from []float32, to []uint16) {
	if v == pureGo {
		goNarrow(from, to)
		return
	}
	C.narrow(C.int(v), C.dim(len(from)), ptr(from), halfPtr(to))
}

func (v variant) add(a, b, y []float32, flags int) {
	C.add(C.int(v), C.dim(len(y)), ptr(a), ptr(b), ptr(y), C.dim(flags))
}

func (v variant) reluBack(dy, y, dx []float32) {
	C.relu_back(C.int(v), C.dim(len(dx)), ptr(dy), ptr(y), ptr(dx))
}

// settings are what an optimizer's elements are updated with, once the update is counted.
type settings = C.struct_settings

func settingsOf(hyper []float32) settings {
	at := func(i int) C.float { return C.float(hyper[i]) }
	return settings{
		lr: at(kernels.HyperLR), momentum: at(kernels.HyperMomentum), decay: at(kernels.HyperWeightDecay),
		unscale: 1 / (at(kernels.HyperGradScale) * at(kernels.HyperBatches)),
		step:    at(kernels.HyperStep), filled1: at(kernels.HyperFilled1), filled2: at(kernels.HyperFilled2),
		fresh: at(kernels.HyperFresh), eps: at(kernels.HyperEps), lr_decay: at(kernels.HyperLRDecay),
	}
}

func (v variant) update(rule kernels.Rule, w, grad, a, b []float32, h settings) {
	C.update(C.int(v), C.int(rule), C.dim(len(w)), ptr(w), ptr(grad), ptr(a), ptr(b), &h)
}

func (v variant) maxPool(p *kernels.MaxPool, first, end int, x, y []float32, index []byte) {
	C.max_pool(C.int(v), C.dim(p.H), C.dim(p.W), C.dim(p.C), C.dim(p.OutH()), C.dim(p.OutW()), C.dim(p.Size), C.dim(p.Stride), C.dim(p.Pad),
		C.dim(max(p.T, 1)), C.dim(p.OutT()), C.dim(max(p.SizeT, 1)), C.dim(max(p.StrideT, 1)), C.dim(first), C.dim(end), ptr(x), ptr(y), octets(index))
}

func (v variant) maxPoolBack(p *kernels.MaxPool, first, end int, dy []float32, index []byte, dx []float32) {
	C.max_pool_back(C.int(v), C.dim(p.H), C.dim(p.W), C.dim(p.C), C.dim(p.OutH()), C.dim(p.OutW()), C.dim(p.Size), C.dim(p.Stride), C.dim(p.Pad),
		C.dim(max(p.T, 1)), C.dim(p.OutT()), C.dim(max(p.SizeT, 1)), C.dim(max(p.StrideT, 1)), C.dim(first), C.dim(end), ptr(dy), octets(index), ptr(dx))
}

// stackFrames writes frames first..end of the output; back, of the gradient of the input.
func (v variant) stackFrames(back bool, op *kernels.StackFrames, first, end int, from, to []float32) {
	C.stack_frames(C.int(v), truth(back), C.dim(op.T), C.dim(op.OutT()), C.dim(op.Pixels), C.dim(op.C), C.dim(op.Taps), C.dim(op.Pad),
		C.dim(first), C.dim(end), ptr(from), ptr(to))
}

func (v variant) spreadMean(rows, c int, factor float32, dy, dx []float32) {
	C.spread_mean(C.int(v), C.dim(rows), C.dim(c), C.float(factor), ptr(dy), ptr(dx))
}
