#include "pixels_amd64.h"

#include "interleave_amd64.h"

__attribute__((target("avx2"))) void gpustall_interleave(const uint8_t *src, size_t n, uint8_t *dst) {
	for (size_t i = 0; i < n; i += 32, dst += 96)
		store_pixels(_mm256_loadu_si256((const __m256i *)(src + i)), _mm256_loadu_si256((const __m256i *)(src + n + i)),
		             _mm256_loadu_si256((const __m256i *)(src + 2 * n + i)), dst);
}
