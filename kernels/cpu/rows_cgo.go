//go:build cgo

package cpu

/*
#include "native.h"

#if defined(__x86_64__)
#define SET(v) ((v) == 3 ? &kernels_avx512 : (v) == 2 ? &kernels_avx2 : &kernels_generic)
#else
#define SET(v) (&kernels_generic)
#endif

#define OF(v, halves, f, ...) ((halves) ? SET(v)->half_tensors.f(__VA_ARGS__) : SET(v)->tensors.f(__VA_ARGS__))
static void add_columns(int v, int halves, dim rows, dim c, const void *x, double *sum) {
	OF(v, halves, add_columns, rows, c, x, sum);
}
static void moments(int v, int halves, dim rows, dim c, const void *x, double *mean, double *m2) {
	OF(v, halves, moments, rows, c, x, mean, m2);
}
static void normalise(int v, int halves, dim rows, dim c, const void *x, const float *mean, const float *scale,
                      const float *beta, const void *residual, void *y, dim flags) {
	OF(v, halves, normalise, rows, c, x, mean, scale, beta, residual, y, flags);
}
static void norm_sums(int v, int halves, dim rows, dim c, const void *dy, const void *x, const void *y, const float *mean,
                      double *sum, double *dot, uint16_t *bits) {
	OF(v, halves, norm_sums, rows, c, dy, x, y, mean, sum, dot, bits);
}
static void norm_back(int v, int halves, dim rows, dim c, const void *dy, const void *x, const uint16_t *bits, const float *mean,
                      const float *scale, const float *offset, const float *slope, void *dx, void *dres, dim flags) {
	OF(v, halves, norm_back, rows, c, dy, x, bits, mean, scale, offset, slope, dx, dres, flags);
}
static void add(int v, int halves, dim n, const void *a, const void *b, void *y, dim flags) { OF(v, halves, add, n, a, b, y, flags); }
static void relu_back(int v, int halves, dim n, const void *dy, const void *y, void *dx) { OF(v, halves, relu_back, n, dy, y, dx); }
static void max_pool(int v, int halves, struct pool p, dim first, dim end, const void *x, void *y, uint8_t *index) {
	OF(v, halves, max_pool, &p, first, end, x, y, index);
}
static void max_pool_back(int v, int halves, struct pool p, dim first, dim end, const void *dy, const uint8_t *index, void *dx) {
	OF(v, halves, max_pool_back, &p, first, end, dy, index, dx);
}
static void spread_mean(int v, int halves, dim rows, dim c, float factor, const void *dy, void *dx) {
	OF(v, halves, spread_mean, rows, c, factor, dy, dx);
}
static void pad_channels(int v, dim rows, dim c, dim wide, const float *x, half *y) { SET(v)->pad_channels(rows, c, wide, x, y); }
static void stack_frames(int v, dim size, struct frames f, dim first, dim end, const void *x, void *y) {
	SET(v)->stack_frames(&f, size, first, end, x, y);
}
static void stack_frames_back(int v, int halves, struct frames f, dim first, dim end, const void *dy, void *dx) {
	OF(v, halves, stack_frames_back, &f, first, end, dy, dx);
}
static void widen(int v, dim n, const half *from, float *to) { SET(v)->widen(n, from, to); }
static void narrow(int v, dim n, const float *from, half *to) { SET(v)->narrow(n, from, to); }
static void update(int v, int rule, dim n, float *w, const float *g, float *a, float *b, const struct settings *h) {
	SET(v)->update(rule, n, w, g, a, b, h);
}

#cgo noescape pad_channels
#cgo nocallback pad_channels
#cgo noescape stack_frames_back
#cgo nocallback stack_frames_back
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
func words(v []uint16) *C.uint16_t  { return (*C.uint16_t)(unsafe.Pointer(unsafe.SliceData(v))) }
func octets(v []byte) *C.uint8_t    { return (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(v))) }

// real is an element of a tensor: a float32 or a bfloat16.
type real interface{ float32 | uint16 }

func at[T real](v []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(v)) }

// halved returns 1 for bfloat16s, else 0.
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

func normSums[T real](v variant, rows, c int, dy, x, y []T, mean []float32, sum, dot []float64, bits []uint16) {
	C.norm_sums(C.int(v), halved[T](), C.dim(rows), C.dim(c), at(dy), at(x), at(y), ptr(mean), doubles(sum), doubles(dot), words(bits))
}

func normBack[T real](v variant, rows, c int, dy, x []T, bits []uint16, mean, scale, offset, slope []float32, dx, dres []T, flags int) {
	C.norm_back(C.int(v), halved[T](), C.dim(rows), C.dim(c), at(dy), at(x), words(bits), ptr(mean), ptr(scale), ptr(offset), ptr(slope), at(dx), at(dres), C.dim(flags))
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

// settings are the hyper-parameters of one update, after the update was counted.
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

// addColumns adds the columns of x, rows of c, to sums.
func addColumns[T real](v variant, x []T, c int, sums []float64) {
	if v == pureGo {
		goAddColumns(any(x).([]float32), c, sums) // bfloat16s are widened where there are no C kernels
		return
	}
	C.add_columns(C.int(v), halved[T](), C.dim(len(x)/c), C.dim(c), at(x), doubles(sums))
}

func add[T real](v variant, a, b, y []T, flags int) {
	C.add(C.int(v), halved[T](), C.dim(len(y)), at(a), at(b), at(y), C.dim(flags))
}

func reluBack[T real](v variant, dy, y, dx []T) {
	C.relu_back(C.int(v), halved[T](), C.dim(len(dx)), at(dy), at(y), at(dx))
}

func poolOf(p *kernels.MaxPool) C.struct_pool {
	return C.struct_pool{h: C.dim(p.H), w: C.dim(p.W), c: C.dim(p.C), oh: C.dim(p.OutH()), ow: C.dim(p.OutW()),
		size: C.dim(p.Size), stride: C.dim(p.Stride), pad: C.dim(p.Pad),
		t: C.dim(max(p.T, 1)), ot: C.dim(p.OutT()), deep: C.dim(max(p.SizeT, 1)), step: C.dim(max(p.StrideT, 1))}
}

func maxPool[T real](v variant, p *kernels.MaxPool, first, end int, x, y []T, index []byte) {
	C.max_pool(C.int(v), halved[T](), poolOf(p), C.dim(first), C.dim(end), at(x), at(y), octets(index))
}

func maxPoolBack[T real](v variant, p *kernels.MaxPool, first, end int, dy []T, index []byte, dx []T) {
	C.max_pool_back(C.int(v), halved[T](), poolOf(p), C.dim(first), C.dim(end), at(dy), octets(index), at(dx))
}

func framesOf(op *kernels.StackFrames) C.struct_frames {
	return C.struct_frames{t: C.dim(op.T), ot: C.dim(op.OutT()), pixels: C.dim(op.Pixels), c: C.dim(op.C), taps: C.dim(op.Taps), pad: C.dim(op.Pad)}
}

// stackFrames writes frames first..end of the output, stackFramesBack those of the gradient.
func stackFrames[T real](v variant, op *kernels.StackFrames, first, end int, x, y []T) {
	var element T
	C.stack_frames(C.int(v), C.dim(unsafe.Sizeof(element)), framesOf(op), C.dim(first), C.dim(end), at(x), at(y))
}

func stackFramesBack[T real](v variant, op *kernels.StackFrames, first, end int, dy, dx []T) {
	C.stack_frames_back(C.int(v), halved[T](), framesOf(op), C.dim(first), C.dim(end), at(dy), at(dx))
}

func spreadMean[T real](v variant, rows, c int, factor float32, dy, dx []T) {
	C.spread_mean(C.int(v), halved[T](), C.dim(rows), C.dim(c), C.float(factor), at(dy), at(dx))
}

// padChannels writes rows of c floats as rows of wide bfloat16s.
func (v variant) padChannels(rows, c, wide int, x []float32, y []uint16) {
	C.pad_channels(C.int(v), C.dim(rows), C.dim(c), C.dim(wide), ptr(x), halfPtr(y))
}
