#include "normalise.h"

#include <string.h>

#include "normalise_amd64.h"

// widen loads 24 bytes as words.
INLINE void widen(const uint8_t *in, __m256i v[3]) {
	for (int j = 0; j < 3; j++) v[j] = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(in + 8 * j)));
}

AVX2 void gpustall_normalise(const uint8_t *in, size_t n, const float *factors, float *out) {
	const struct norm norm = norm_of(factors);
	int past = (uintptr_t)out % 32 == 0;
	__m256i v[3];
	size_t x = 0;
	for (; x + 24 <= n; x += 24) {
		widen(in + x, v);
		if (past) normalise(v, &norm, 1, out + x);
		else normalise(v, &norm, 0, out + x);
	}
	if (x < n) {
		uint8_t last[24] = {0};
		float rest[24];
		memcpy(last, in + x, n - x);
		widen(last, v);
		normalise(v, &norm, 0, rest);
		memcpy(out + x, rest, (n - x) * sizeof *out);
	}
	if (past) _mm_sfence();
}
