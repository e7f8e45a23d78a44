// Vectors of LANES floats, by the compilers' vector extension: gcc and clang
// turn them into the registers of the target that the including file sets.
#ifndef LANES
#error "LANES must be defined"
#endif

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#else
#include <math.h>
#endif

#include "native.h"

typedef float vec __attribute__((vector_size(LANES * 4)));
typedef float vec_unaligned __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t veci __attribute__((vector_size(LANES * 4)));

static inline __attribute__((always_inline)) vec load(const float *p) { return *(const vec_unaligned *)p; }
static inline __attribute__((always_inline)) void store(float *p, vec v) { *(vec_unaligned *)p = v; }
static inline __attribute__((always_inline)) vec all(float x) { return x - (vec){}; }
static inline __attribute__((always_inline)) vec pick(veci mask, vec a, vec b) {
	return (vec)((mask & (veci)a) | (~mask & (veci)b));
}
static inline __attribute__((always_inline)) vec relu(vec v) { return pick(v < 0, (vec){}, v); } // a NaN stays

// positive sets bit i where v[i] > 0. keep sets the elements to 0 whose bit is not set.
static inline __attribute__((always_inline)) uint16_t positive(vec v) {
#if defined(__x86_64__) && LANES == 16
	return _mm512_cmp_ps_mask((__m512)v, _mm512_setzero_ps(), _CMP_GT_OQ);
#elif defined(__x86_64__) && LANES == 8
	return (uint16_t)_mm256_movemask_ps((__m256)(v > 0));
#else
	uint16_t bits = 0;
	for (int i = 0; i < LANES; i++) bits |= (uint16_t)((v[i] > 0) << i);
	return bits;
#endif
}
static inline __attribute__((always_inline)) vec keep(uint16_t bits, vec v) {
#if defined(__x86_64__) && LANES == 16
	return (vec)_mm512_maskz_mov_ps(bits, (__m512)v);
#else
	veci lane;
	for (int i = 0; i < LANES; i++) lane[i] = 1 << i;
	return pick((((veci){} + (int32_t)bits) & lane) != 0, v, (vec){});
#endif
}

// load_n and store_n touch n floats only, for the tail of a row.
static inline __attribute__((always_inline)) vec load_n(const float *p, dim n) {
	if (n >= LANES) return load(p);
	vec v = {};
	memcpy(&v, p, n * sizeof(float));
	return v;
}
static inline __attribute__((always_inline)) void store_n(float *p, vec v, dim n) {
	if (n >= LANES) store(p, v);
	else memcpy(p, &v, n * sizeof(float));
}

// A bfloat16 is the upper half of a float. widen and narrow convert LANES of them. narrow rounds to the
// nearest, ties to even, and keeps NaNs.
typedef uint16_t vech __attribute__((vector_size(LANES * 2)));
typedef uint16_t vech_unaligned __attribute__((vector_size(LANES * 2), aligned(2), may_alias));
typedef uint32_t vecu __attribute__((vector_size(LANES * 4)));

static inline __attribute__((always_inline)) vec widen_vec(vech h) {
	return (vec)(__builtin_convertvector(h, vecu) << 16);
}
static inline __attribute__((always_inline)) vech narrow_vec(vec v) {
	vecu b = (vecu)v, near = (b + 0x7fff + (b >> 16 & 1)) >> 16;
	veci nan = v != v;
	return __builtin_convertvector(((vecu)nan & (b >> 16 | 0x40)) | (~(vecu)nan & near), vech);
}
static inline __attribute__((always_inline)) vec load_half(const half *p) { return widen_vec(*(const vech_unaligned *)p); }
static inline __attribute__((always_inline)) void store_half(half *p, vec v) { *(vech_unaligned *)p = narrow_vec(v); }
static inline __attribute__((always_inline)) vec load_half_n(const half *p, dim n) {
	if (n >= LANES) return load_half(p);
	vech h = {};
	memcpy(&h, p, n * sizeof(half));
	return widen_vec(h);
}
static inline __attribute__((always_inline)) void store_half_n(half *p, vec v, dim n) {
	if (n >= LANES) {
		store_half(p, v);
		return;
	}
	vech h = narrow_vec(v);
	memcpy(p, &h, n * sizeof(half));
}

// stream stores a whole vector past the caches: p is aligned to it.
static inline __attribute__((always_inline)) void stream(float *p, vec v) {
#if defined(__x86_64__) && LANES == 16
	_mm512_stream_ps(p, (__m512)v);
#elif defined(__x86_64__) && LANES == 8
	_mm256_stream_ps(p, (__m256)v);
#elif defined(__x86_64__)
	_mm_stream_ps(p, (__m128)v);
#else
	store(p, v);
#endif
}

// stream_end makes streamed stores visible to other threads before later stores.
static inline __attribute__((always_inline)) void stream_end(void) {
#if defined(__x86_64__)
	_mm_sfence();
#endif
}

// INTERLEAVE_LOW and _HIGH interleave the lower, or upper, halves of two vectors.
#if LANES == 16
#define LOW_HALVES 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_HALVES 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif LANES == 8
#define LOW_HALVES 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_HALVES 4, 12, 5, 13, 6, 14, 7, 15
#else
#define LOW_HALVES 0, 4, 1, 5
#define HIGH_HALVES 2, 6, 3, 7
#endif
#if defined(__clang__)
#define INTERLEAVE_LOW(a, b) __builtin_shufflevector(a, b, LOW_HALVES)
#define INTERLEAVE_HIGH(a, b) __builtin_shufflevector(a, b, HIGH_HALVES)
#else
#define INTERLEAVE_LOW(a, b) __builtin_shuffle(a, b, (veci){LOW_HALVES})
#define INTERLEAVE_HIGH(a, b) __builtin_shuffle(a, b, (veci){HIGH_HALVES})
#endif

static inline dim min_dim(dim a, dim b) { return a < b ? a : b; }

// aligned reports whether all vectors of rows of ld elements, from p on, are aligned.
static inline int aligned(const void *p, dim ld) { return (uintptr_t)p % sizeof(vec) == 0 && ld % LANES == 0; }

// put_n and put_half_n store n elements. put_n stores whole vectors past the caches if asked to.
// Vectors of bfloat16s are half a cache line, which would take longer that way.
static inline __attribute__((always_inline)) void put_n(float *p, vec v, dim n, dim past) {
	if (past) stream(p, v);
	else store_n(p, v, n);
}
static inline __attribute__((always_inline)) void put_half_n(half *p, vec v, dim n, dim past) { store_half_n(p, v, n); }

// root is the square root of each.
static inline __attribute__((always_inline)) vec root(vec v) {
#if defined(__x86_64__) && LANES == 16
	return (vec)_mm512_sqrt_ps((__m512)v);
#elif defined(__x86_64__) && LANES == 8
	return (vec)_mm256_sqrt_ps((__m256)v);
#elif defined(__x86_64__)
	return (vec)_mm_sqrt_ps((__m128)v);
#elif defined(__aarch64__)
	return (vec)vsqrtq_f32((float32x4_t)v);
#else
	for (int i = 0; i < LANES; i++) v[i] = sqrtf(v[i]);
	return v;
#endif
}
