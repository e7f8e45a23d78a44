// Normalisation of RGB bytes with AVX2: (v/255 - mean) / std, 24 values at a time. The first of
// them is a red one.
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,fma")))
#define INLINE static inline __attribute__((always_inline, target("avx2,fma")))

// inverse multiplies by 1/d. low is the part of 1/d that the float high cannot hold. The
// product is then rounded as the quotient is, which NewNorm checks for all values.
struct inverse { __m256 high, low; };

INLINE __m256 divide(__m256 v, struct inverse d) { return _mm256_fmadd_ps(v, d.high, _mm256_mul_ps(v, d.low)); }

struct norm {
	struct inverse full, std[3];
	__m256 mean[3];
};

// norm_of takes three times 24 values: mean, 1/std, and what the float of 1/std cannot hold.
INLINE struct norm norm_of(const float *factors) {
	struct norm n;
	const float full = 1 / 255.0f;
	n.full = (struct inverse){_mm256_set1_ps(full), _mm256_set1_ps((float)(1 / 255.0 - full))};
	for (int j = 0; j < 3; j++, factors += 8) {
		n.mean[j] = _mm256_loadu_ps(factors);
		n.std[j] = (struct inverse){_mm256_loadu_ps(factors + 24), _mm256_loadu_ps(factors + 48)};
	}
	return n;
}

// normalise writes 24 values as floats. If past is set it writes past the caches.
INLINE void normalise(const __m256i v[3], const struct norm *n, int past, float *out) {
	for (int j = 0; j < 3; j++) {
		__m256 unit = divide(_mm256_cvtepi32_ps(v[j]), n->full);
		unit = divide(_mm256_sub_ps(unit, n->mean[j]), n->std[j]);
		if (past) _mm256_stream_ps(out + 8 * j, unit);
		else _mm256_storeu_ps(out + 8 * j, unit);
	}
}
