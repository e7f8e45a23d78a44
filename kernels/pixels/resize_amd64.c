#include "resize_amd64.h"

#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))

enum { weight_bits = 22, low_bits = 11 };

// groups is how many weights an output has room for.
INLINE size_t groups(size_t pairs) { return (pairs + 1) / 2 * 8; }

INLINE __m256i pair_of(const int16_t *w) {
	int32_t v;
	memcpy(&v, w, 4);
	return _mm256_set1_epi32(v);
}

// whole joins the sums of the two parts of the weights, and rounds.
INLINE __m256i whole(__m256i high, __m256i low) {
	return _mm256_srli_epi32(_mm256_add_epi32(_mm256_slli_epi32(high, low_bits), low), weight_bits);
}

INLINE __m256i two_rows(const uint8_t *a, const uint8_t *b) {
	return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)a)),
	                               _mm_loadu_si128((const __m128i *)b), 1);
}

// Rows are taken four at a time, two in the halves of a register, so that they share
// the weights.
enum { together = 4 };

AVX2 void gpustall_resize_horizontal(const uint8_t *in, size_t in_stride, size_t rows, const int32_t *first,
                                     const int16_t *split, size_t pairs, size_t n, int mirrored, uint8_t *out,
                                     size_t out_stride) {
	// The first two pixels of four, colour by colour, as 16 bits; and the last two.
	const __m256i near = _mm256_broadcastsi128_si256(
	    _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
	const __m256i far = _mm256_broadcastsi128_si256(
	    _mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1));
	const __m256i pixel = _mm256_broadcastsi128_si256(
	    _mm_setr_epi8(0, 4, 8, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
	const __m256i half = _mm256_set1_epi32(1 << (weight_bits - 1));
	for (size_t r = 0; r < rows; r += together) {
		const uint8_t *from[together];
		uint8_t *to[together];
		for (size_t j = 0; j < together; j++) {
			size_t q = r + j < rows ? r + j : rows - 1; // the last one may be made again
			from[j] = in + q * in_stride;
			to[j] = out + q * out_stride;
		}
		for (size_t i = 0; i < n; i++) {
			size_t o = mirrored ? n - 1 - i : i; // pixels are written from left to right
			const int16_t *w = split + o * groups(pairs);
			size_t at = 3 * (size_t)first[o];
			__m256i high = _mm256_setzero_si256(), low = half, high2 = high, low2 = half;
			for (size_t k = 0; k < pairs; k += 2, w += 8, at += 12) {
				__m256i v = two_rows(from[0] + at, from[1] + at), x = _mm256_shuffle_epi8(v, near);
				__m256i v2 = two_rows(from[2] + at, from[3] + at), x2 = _mm256_shuffle_epi8(v2, near);
				__m256i wh = pair_of(w), wl = pair_of(w + 4);
				high = _mm256_add_epi32(high, _mm256_madd_epi16(x, wh));
				low = _mm256_add_epi32(low, _mm256_madd_epi16(x, wl));
				high2 = _mm256_add_epi32(high2, _mm256_madd_epi16(x2, wh));
				low2 = _mm256_add_epi32(low2, _mm256_madd_epi16(x2, wl));
				if (k + 1 == pairs) break;
				x = _mm256_shuffle_epi8(v, far), x2 = _mm256_shuffle_epi8(v2, far);
				wh = pair_of(w + 2), wl = pair_of(w + 6);
				high = _mm256_add_epi32(high, _mm256_madd_epi16(x, wh));
				low = _mm256_add_epi32(low, _mm256_madd_epi16(x, wl));
				high2 = _mm256_add_epi32(high2, _mm256_madd_epi16(x2, wh));
				low2 = _mm256_add_epi32(low2, _mm256_madd_epi16(x2, wl));
			}
			__m256i p[2] = {_mm256_shuffle_epi8(whole(high, low), pixel), _mm256_shuffle_epi8(whole(high2, low2), pixel)};
			for (int j = 0; j < 2; j++) {
				int32_t a = _mm_cvtsi128_si32(_mm256_castsi256_si128(p[j]));
				int32_t b = _mm_cvtsi128_si32(_mm256_extracti128_si256(p[j], 1));
				memcpy(to[2 * j] + 3 * i, &a, 4);
				memcpy(to[2 * j + 1] + 3 * i, &b, 4);
			}
		}
	}
}

// column sums 24 bytes of width rows from mid on.
INLINE void column(const uint8_t *mid, size_t stride, size_t width, const int16_t *split, __m256i v[3]) {
	__m256i high[3], low[3];
	for (int j = 0; j < 3; j++) {
		high[j] = _mm256_setzero_si256();
		low[j] = _mm256_set1_epi32(1 << (weight_bits - 1));
	}
	for (size_t k = 0; k < width; k += 2, mid += 2 * stride) {
		const uint8_t *next = k + 1 < width ? mid + stride : mid; // its weight is zero then
		const int16_t *w = split + k / 4 * 8 + k % 4;
		__m256i wh = pair_of(w), wl = pair_of(w + 4);
		__m128i a = _mm_loadu_si128((const __m128i *)mid), b = _mm_loadu_si128((const __m128i *)next);
		__m128i c = _mm_loadl_epi64((const __m128i *)(mid + 16)), d = _mm_loadl_epi64((const __m128i *)(next + 16));
		__m256i x[3] = {
			_mm256_cvtepu8_epi16(_mm_unpacklo_epi8(a, b)),
			_mm256_cvtepu8_epi16(_mm_unpackhi_epi8(a, b)),
			_mm256_cvtepu8_epi16(_mm_unpacklo_epi8(c, d)),
		};
		for (int j = 0; j < 3; j++) {
			high[j] = _mm256_add_epi32(high[j], _mm256_madd_epi16(x[j], wh));
			low[j] = _mm256_add_epi32(low[j], _mm256_madd_epi16(x[j], wl));
		}
	}
	for (int j = 0; j < 3; j++) v[j] = whole(high[j], low[j]);
}

// bytes packs 24 values.
INLINE void bytes(const __m256i v[3], uint8_t *out) {
	__m256i ab = _mm256_permute4x64_epi64(_mm256_packs_epi32(v[0], v[1]), 0xd8);
	__m128i c = _mm_packs_epi32(_mm256_castsi256_si128(v[2]), _mm256_extracti128_si256(v[2], 1));
	_mm_storeu_si128((__m128i *)out, _mm_packus_epi16(_mm256_castsi256_si128(ab), _mm256_extracti128_si256(ab, 1)));
	_mm_storel_epi64((__m128i *)(out + 16), _mm_packus_epi16(c, c));
}

AVX2 void gpustall_resize_vertical(const uint8_t *mid, size_t stride, size_t n, const int32_t *first, const int32_t *width,
                                   const int16_t *split, size_t pairs, size_t count, uint8_t *out) {
	for (size_t i = 0; i < count; i++, split += groups(pairs), out += n) {
		const uint8_t *from = mid + (size_t)first[i] * stride;
		__m256i v[3];
		size_t x = 0;
		for (; x + 24 <= n; x += 24) {
			column(from + x, stride, (size_t)width[i], split, v);
			bytes(v, out + x);
		}
		if (x < n) {
			uint8_t rest[24];
			column(from + x, stride, (size_t)width[i], split, v);
			bytes(v, rest);
			memcpy(out + x, rest, n - x);
		}
	}
}
