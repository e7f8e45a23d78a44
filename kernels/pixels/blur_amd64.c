#include "blur_amd64.h"

#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2")))

enum { block = 32, lanes = 4 }; // floats, and registers that hold them

AVX2 void gpustall_blur_row(const float *in, size_t n, const float *weight, size_t radius, float *out) {
	for (size_t x = 0; x < n; x += block) {
		const float *m = in + 3 * radius + x;
		__m256 sum[lanes], w = _mm256_set1_ps(weight[0]);
		for (int j = 0; j < lanes; j++) sum[j] = _mm256_mul_ps(w, _mm256_loadu_ps(m + 8 * j));
		for (size_t k = 1; k <= radius; k++) {
			const float *a = m - 3 * k, *b = m + 3 * k;
			w = _mm256_set1_ps(weight[k]);
			for (int j = 0; j < lanes; j++) {
				__m256 both = _mm256_add_ps(_mm256_loadu_ps(a + 8 * j), _mm256_loadu_ps(b + 8 * j));
				sum[j] = _mm256_add_ps(sum[j], _mm256_mul_ps(w, both));
			}
		}
		for (int j = 0; j < lanes; j++) _mm256_storeu_ps(out + x + 8 * j, sum[j]);
	}
}

AVX2 void gpustall_blur_columns(const float *in, const int32_t *rows, size_t n, const float *weight, size_t radius, uint8_t *out) {
	const __m256 half = _mm256_set1_ps(0.5f);
	for (size_t x = 0; x < n; x += block) {
		__m256 sum[lanes], w = _mm256_set1_ps(weight[0]);
		for (int j = 0; j < lanes; j++) sum[j] = _mm256_mul_ps(w, _mm256_loadu_ps(in + rows[radius] + x + 8 * j));
		for (size_t k = 1; k <= radius; k++) {
			const float *a = in + rows[radius - k] + x, *b = in + rows[radius + k] + x;
			w = _mm256_set1_ps(weight[k]);
			for (int j = 0; j < lanes; j++) {
				__m256 both = _mm256_add_ps(_mm256_loadu_ps(a + 8 * j), _mm256_loadu_ps(b + 8 * j));
				sum[j] = _mm256_add_ps(sum[j], _mm256_mul_ps(w, both));
			}
		}
		__m256i v[lanes];
		for (int j = 0; j < lanes; j++) v[j] = _mm256_cvttps_epi32(_mm256_add_ps(sum[j], half));
		__m256i p = _mm256_packus_epi16(_mm256_packus_epi32(v[0], v[1]), _mm256_packus_epi32(v[2], v[3]));
		p = _mm256_permutevar8x32_epi32(p, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
		uint8_t bytes[block];
		_mm256_storeu_si256((__m256i *)bytes, p);
		memcpy(out + x, bytes, n - x < block ? n - x : block);
	}
}
