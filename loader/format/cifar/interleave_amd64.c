#include "interleave_amd64.h"

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))

// Of 16 pixels, which byte of each plane stands at each place of each third of their 48 bytes.
static const int8_t at[3][3][16] = {
	{{0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5},
	 {-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1},
	 {-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1}},
	{{-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1},
	 {5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10},
	 {-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1}},
	{{-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1},
	 {-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1},
	 {10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15}},
};

AVX2 void gpustall_interleave(const uint8_t *src, size_t n, uint8_t *dst) {
	__m256i from[3][3];
	for (int p = 0; p < 3; p++)
		for (int t = 0; t < 3; t++) from[p][t] = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)at[p][t]));
	for (size_t i = 0; i < n; i += 32, dst += 96) {
		__m256i t[3]; // each third of 16 pixels, and of the next 16
		for (int j = 0; j < 3; j++) {
			t[j] = _mm256_setzero_si256();
			for (int p = 0; p < 3; p++)
				t[j] = _mm256_or_si256(t[j], _mm256_shuffle_epi8(_mm256_loadu_si256((const __m256i *)(src + p * n + i)), from[p][j]));
		}
		_mm256_storeu_si256((__m256i *)dst, _mm256_permute2x128_si256(t[0], t[1], 0x20));
		_mm256_storeu_si256((__m256i *)(dst + 32), _mm256_permute2x128_si256(t[2], t[0], 0x30));
		_mm256_storeu_si256((__m256i *)(dst + 64), _mm256_permute2x128_si256(t[1], t[2], 0x31));
	}
}
