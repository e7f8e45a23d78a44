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

// A bfloat16 is the upper half of a float. widen and narrow convert LANES of them; what is
// rounded goes to the nearest, ties to even, and a NaN stays one.
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

static inline dim min_dim(dim a, dim b) { return a < b ? a : b; }

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
