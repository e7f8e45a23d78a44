// How a float32 is split in thirds, and how thirds are multiplied. Included after simd.h, where code is
// compiled for AVX512_BF16.
#ifndef GPUSTALL_KERNELS_CPU_THIRDPART_H
#define GPUSTALL_KERNELS_CPU_THIRDPART_H

// part rounds x and y to bfloat16s, subtracts these from x and y, and returns them as pairs. straight
// gets x's, then y's.
static inline __attribute__((always_inline)) __m512i part(__m512 *x, __m512 *y, __m512i *straight) {
	const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5,
	                                       20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
	*straight = (__m512i)_mm512_cvtne2ps_pbh(*y, *x);
	__m512i pairs = _mm512_permutexvar_epi16(order, *straight);
	*x -= (__m512)_mm512_slli_epi32(pairs, 16);
	*y -= (__m512)_mm512_and_si512(pairs, _mm512_set1_epi32((int)0xffff0000));
	return pairs;
}

static inline __attribute__((always_inline)) __m512 some(const float *p, dim n) {
	if (n >= LANES) return _mm512_loadu_ps(p);
	return n > 0 ? _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p) : _mm512_setzero_ps();
}

// SIX_PRODUCTS adds the six products of thirds, the smaller ones first. LEFT(third) loads the left
// operand into tile 4 and, if both, tile 5. The right one is a chunk of a panel. configure must have
// set the tiles.
#define SIX_PRODUCTS(LEFT, panel, both)                                                             \
	LEFT(0) RIGHT_THIRD(panel, 2) MULTIPLY(both)                                                    \
	RIGHT_THIRD(panel, 1) MULTIPLY(both)                                                            \
	LEFT(1) MULTIPLY(both)                                                                          \
	RIGHT_THIRD(panel, 0) MULTIPLY(both)                                                            \
	LEFT(2) MULTIPLY(both)                                                                          \
	LEFT(0) MULTIPLY(both)
#define RIGHT_THIRD(panel, third)                                                                   \
	_tile_loadd(6, panel + third * 16 * 2 * THIRDS_N, 4 * THIRDS_N);                                \
	_tile_loadd(7, panel + third * 16 * 2 * THIRDS_N + 2 * LANES, 4 * THIRDS_N);
#define MULTIPLY(both)                                                                              \
	_tile_dpbf16ps(0, 4, 6);                                                                        \
	_tile_dpbf16ps(1, 4, 7);                                                                        \
	if (both) {                                                                                     \
		_tile_dpbf16ps(2, 5, 6);                                                                    \
		_tile_dpbf16ps(3, 5, 7);                                                                    \
	}

#endif
