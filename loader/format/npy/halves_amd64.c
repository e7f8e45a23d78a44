#include "halves_amd64.h"

#include <immintrin.h>

#define F16C __attribute__((target("avx2,f16c")))
#define INLINE static inline __attribute__((always_inline, target("avx2,f16c")))

INLINE __m256 eight(const uint8_t *src, __m256i order) {
	return _mm256_permutevar8x32_ps(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)src)), order);
}

F16C void gpustall_halves(const uint8_t *src, size_t stride, size_t n, float *dst) {
	// A shuffle puts each of a plane's eight values at its place in the vector that takes it.
	const __m256i red = _mm256_setr_epi32(0, 3, 6, 1, 4, 7, 2, 5);
	const __m256i green = _mm256_setr_epi32(5, 0, 3, 6, 1, 4, 7, 2);
	const __m256i blue = _mm256_setr_epi32(2, 5, 0, 3, 6, 1, 4, 7);
	enum { at0 = 0x49, at1 = 0x92, at2 = 0x24 }; // places 0, 3, 6; 1, 4, 7; 2, 5
	for (size_t i = 0; i < n; i += 8, dst += 24) {
		__m256 r = eight(src + 2 * i, red), g = eight(src + 2 * (stride + i), green), b = eight(src + 2 * (2 * stride + i), blue);
		_mm256_storeu_ps(dst, _mm256_blend_ps(_mm256_blend_ps(r, g, at1), b, at2));
		_mm256_storeu_ps(dst + 8, _mm256_blend_ps(_mm256_blend_ps(r, g, at2), b, at0));
		_mm256_storeu_ps(dst + 16, _mm256_blend_ps(_mm256_blend_ps(r, g, at0), b, at1));
	}
}
