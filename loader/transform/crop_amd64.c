#include "crop_amd64.h"

#include "normalise_amd64.h"

enum { unit = 8 }; // pixels, 24 values

// forwards widens the bytes of 8 pixels.
INLINE void forwards(const uint8_t *px, __m256i v[3]) {
	for (int j = 0; j < 3; j++) v[j] = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(px + 8 * j)));
}

// backwards widens the bytes of 8 pixels, from the last pixel to the first.
INLINE void backwards(const uint8_t *px, __m256i v[3]) {
	const __m128i from[3] = { // 8 of the 16 bytes from 8, 4 and 0 on
		_mm_setr_epi8(13, 14, 15, 10, 11, 12, 7, 8, -1, -1, -1, -1, -1, -1, -1, -1),
		_mm_setr_epi8(13, 8, 9, 10, 5, 6, 7, 2, -1, -1, -1, -1, -1, -1, -1, -1),
		_mm_setr_epi8(7, 8, 3, 4, 5, 0, 1, 2, -1, -1, -1, -1, -1, -1, -1, -1),
	};
	for (int j = 0; j < 3; j++)
		v[j] = _mm256_cvtepu8_epi32(_mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(px + 8 - 4 * j)), from[j]));
}

// pad writes n black pixels from out on, 8 at a time, and nothing from end on.
INLINE void pad(float *out, ptrdiff_t n, float *end, const struct norm *norm) {
	const __m256i black[3] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
	for (ptrdiff_t x = 0; x < n; x += unit) {
		float *to = out + 3 * x;
		normalise(black, norm, 0, to + 3 * unit <= end ? to : end - 3 * unit);
	}
}

AVX2 void gpustall_crop(const uint8_t *pix, ptrdiff_t width, ptrdiff_t height, ptrdiff_t dy, ptrdiff_t dx, ptrdiff_t left,
                        ptrdiff_t right, int flip, const float *factors, float *out) {
	const struct norm norm = norm_of(factors);
	const ptrdiff_t n = right - left, first = flip ? width - right : left;
	for (ptrdiff_t i = 0; i < height; i++, out += 3 * width) {
		float *end = out + 3 * width;
		if (i + dy < 0 || i + dy >= height) {
			pad(out, width, end, &norm);
			continue;
		}
		// A unit may write too much, which later units overwrite. The last unit of eight pixels
		// writes some of them again.
		pad(out, first, end, &norm);
		pad(out + 3 * (first + n), width - first - n, end, &norm);
		const uint8_t *in = pix + 3 * ((i + dy) * width + left + dx);
		for (ptrdiff_t x = 0; x < n; x += unit) {
			ptrdiff_t at = x + unit <= n ? x : n - unit;
			__m256i v[3];
			if (flip) backwards(in + 3 * (n - unit - at), v);
			else forwards(in + 3 * at, v);
			normalise(v, &norm, 0, out + 3 * (first + at));
		}
	}
}
