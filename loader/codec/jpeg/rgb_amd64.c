#include <immintrin.h>
#include <string.h>

#include "../../transform/interleave_amd64.h"
#include "scan_amd64.h"

#define AVX2 __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))

// Pixels are made in strips, so that upsampled chroma stays in the first-level cache. Vectors
// may write past the end of a strip, so each has room for one more.
enum { strip = 512, room = 32 };

// sums holds a strip's chroma samples, possibly weighted with those of a neighbouring row.
// [first-1] and [first+n] are its neighbours; at an edge of the image, they repeat the edge.
enum { first = 16 };
struct sums { uint16_t v[strip / 2 + first + room]; };

// gather reads samples at to at+n of a row of width samples. far is the row further away, which
// counts a quarter, or null.
INLINE void gather(struct sums *s, const uint8_t *near, const uint8_t *far, int64_t at, int64_t n, int64_t width) {
	const __m256i three = _mm256_set1_epi16(3);
	for (int64_t i = 0; i < n; i += 16) {
		__m256i v = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(near + at + i)));
		if (far)
			v = _mm256_add_epi16(_mm256_mullo_epi16(v, three),
			                     _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(far + at + i))));
		_mm256_storeu_si256((__m256i *)(s->v + first + i), v);
	}
	int64_t l = at > 0 ? at - 1 : 0, r = at + n < width ? at + n : width - 1;
	s->v[first - 1] = (uint16_t)(far ? 3 * near[l] + far[l] : near[l]);
	s->v[first + n] = (uint16_t)(far ? 3 * near[r] + far[r] : near[r]);
}

// widen makes two samples of each of n sums: three quarters of the sum and a quarter of its
// left or right neighbour. left and right are the roundings, up on one side and down on the
// other.
INLINE void widen(const struct sums *s, int64_t n, int left, int right, int shift, uint8_t *out) {
	const __m256i three = _mm256_set1_epi16(3), l = _mm256_set1_epi16((short)left), r = _mm256_set1_epi16((short)right);
	const __m128i by = _mm_cvtsi32_si128(shift);
	for (int64_t i = 0; i < n; i += 16) {
		const uint16_t *p = s->v + first + i;
		__m256i v = _mm256_mullo_epi16(_mm256_loadu_si256((const __m256i *)p), three);
		__m256i a = _mm256_add_epi16(_mm256_add_epi16(v, l), _mm256_loadu_si256((const __m256i *)(p - 1)));
		__m256i b = _mm256_add_epi16(_mm256_add_epi16(v, r), _mm256_loadu_si256((const __m256i *)(p + 1)));
		a = _mm256_srl_epi16(a, by);
		b = _mm256_slli_epi16(_mm256_srl_epi16(b, by), 8);
		_mm256_storeu_si256((__m256i *)(out + 2 * i), _mm256_or_si256(a, b));
	}
}

// between makes samples between two rows.
INLINE void between(const uint8_t *near, const uint8_t *far, int64_t n, int bias, uint8_t *out) {
	const __m256i three = _mm256_set1_epi16(3), b = _mm256_set1_epi16((short)bias);
	for (int64_t i = 0; i < n; i += 16) {
		__m256i v = _mm256_mullo_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(near + i))), three);
		v = _mm256_add_epi16(_mm256_add_epi16(v, b), _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(far + i))));
		v = _mm256_permute4x64_epi64(_mm256_packus_epi16(_mm256_srli_epi16(v, 2), v), 0xd8);
		_mm_storeu_si128((__m128i *)(out + i), _mm256_castsi256_si128(v));
	}
}

// colours converts 16 pixels of 16 bits, with 128 subtracted from Cb and Cr. It uses JFIF's
// equations as libjpeg rounds them (ycbcr.go of package codec). The factors of R and B are the
// rest after whole multiples of Cr and Cb; a test of all 256 values showed that 15 bits
// suffice. Those of G are multiplied in 32 bits, because their sum is rounded.
INLINE void colours(__m256i y, __m256i cb, __m256i cr, __m256i *r, __m256i *g, __m256i *b) {
	const __m256i factors = _mm256_set1_epi32((int32_t)((uint16_t)-22554 | (uint32_t)(65536 - 46802) << 16));
	const __m256i half = _mm256_set1_epi32(1 << 15);
	*r = _mm256_add_epi16(_mm256_add_epi16(y, cr), _mm256_mulhrs_epi16(cr, _mm256_set1_epi16(13173)));
	*b = _mm256_add_epi16(_mm256_add_epi16(y, _mm256_add_epi16(cb, cb)), _mm256_mulhrs_epi16(cb, _mm256_set1_epi16(-7471)));
	__m256i lo = _mm256_madd_epi16(_mm256_unpacklo_epi16(cb, cr), factors);
	__m256i hi = _mm256_madd_epi16(_mm256_unpackhi_epi16(cb, cr), factors);
	lo = _mm256_srai_epi32(_mm256_add_epi32(lo, half), 16);
	hi = _mm256_srai_epi32(_mm256_add_epi32(hi, half), 16);
	*g = _mm256_add_epi16(_mm256_sub_epi16(y, cr), _mm256_packs_epi32(lo, hi));
}

// pixels converts 32 pixels.
INLINE void pixels(const uint8_t *luma, const uint8_t *blue, const uint8_t *red, uint8_t *out) {
	const __m256i zero = _mm256_setzero_si256(), middle = _mm256_set1_epi16(128);
	__m256i y = _mm256_loadu_si256((const __m256i *)luma);
	__m256i cb = _mm256_loadu_si256((const __m256i *)blue), cr = _mm256_loadu_si256((const __m256i *)red);
	__m256i r, g, b, r2, g2, b2;
	colours(_mm256_unpacklo_epi8(y, zero), _mm256_sub_epi16(_mm256_unpacklo_epi8(cb, zero), middle),
	        _mm256_sub_epi16(_mm256_unpacklo_epi8(cr, zero), middle), &r, &g, &b);
	colours(_mm256_unpackhi_epi8(y, zero), _mm256_sub_epi16(_mm256_unpackhi_epi8(cb, zero), middle),
	        _mm256_sub_epi16(_mm256_unpackhi_epi8(cr, zero), middle), &r2, &g2, &b2);
	r = _mm256_packus_epi16(r, r2), g = _mm256_packus_epi16(g, g2), b = _mm256_packus_epi16(b, b2);
	store_pixels(r, g, b, out);
}

AVX2 void gpustall_jpeg_rgb(const struct part *p, int subsampling, const uint8_t *luma, const uint8_t *blue,
                            const uint8_t *red, int64_t y_stride, int64_t c_stride, uint8_t *out) {
	int wide = (subsampling & half_wide) != 0, high = (subsampling & half_high) != 0;
	int64_t width = (p->width + wide) >> wide, height = (p->height + high) >> high; // of chroma
	for (int64_t y = p->y; y < p->y + p->h; y++) {
		int64_t near = y >> high, far = near;
		if (high) far = y & 1 ? (near + 1 < height ? near + 1 : near) : (near > 0 ? near - 1 : 0);
		const uint8_t *rows[2][2] = {
			{blue + near * c_stride, blue + far * c_stride},
			{red + near * c_stride, red + far * c_stride},
		};
		for (int64_t x = p->x; x < p->x + p->w;) {
			uint8_t upsampled[2][strip + 2 * room];
			const uint8_t *chroma[2];
			int64_t at = x >> wide, to = at + (strip >> wide);
			int64_t end = to << wide;
			if (end > p->x + p->w) {
				end = p->x + p->w;
				to = (end + wide) >> wide;
			}
			for (int i = 0; i < 2; i++) {
				const uint8_t **row = rows[i];
				if (wide) {
					struct sums s;
					gather(&s, row[0], high ? row[1] : 0, at, to - at, width);
					if (high) widen(&s, to - at, 8, 7, 4, upsampled[i]);
					else widen(&s, to - at, 1, 2, 2, upsampled[i]);
					chroma[i] = upsampled[i] + (x & 1);
				} else if (high) {
					between(row[0] + at, row[1] + at, to - at, 1 + (int)(y & 1), upsampled[i]);
					chroma[i] = upsampled[i];
				} else {
					chroma[i] = row[0] + at;
				}
			}
			const uint8_t *l = luma + y * y_stride + x;
			int64_t n = end - x, i = 0;
			for (; i + 32 <= n; i += 32, out += 96) pixels(l + i, chroma[0] + i, chroma[1] + i, out);
			if (i < n) {
				uint8_t rest[96];
				pixels(l + i, chroma[0] + i, chroma[1] + i, rest);
				memcpy(out, rest, (size_t)(3 * (n - i)));
				out += 3 * (n - i);
			}
			x = end;
		}
	}
}
