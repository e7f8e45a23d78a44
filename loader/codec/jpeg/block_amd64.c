#include "block_amd64.h"

#include <string.h>

const uint8_t zigzag[64 + 16] = {
	0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5,
	12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28,
	35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
	58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
	64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64,
};

static uint8_t pixel(int32_t v) {
	v = (int32_t)((uint32_t)v + 128);
	return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

void gpustall_flat(uint8_t *out, int64_t stride, int32_t dc) {
	uint64_t row = pixel(((int32_t)((uint32_t)dc << 2) + (1 << 4)) >> 5) * 0x0101010101010101u;
	for (int y = 0; y < 8; y++) memcpy(out + y * stride, &row, 8);
}

// The constants of dct.go, times 1<<13.
enum {
	const_bits = 13, pass_bits = 2,
	f0298 = 2446, f0390 = 3196, f0541 = 4433, f0765 = 6270, f0899 = 7373, f1175 = 9633,
	f1501 = 12299, f1847 = 15137, f1961 = 16069, f2053 = 16819, f2562 = 20995, f3072 = 25172,
};

// plain is the transform of dct.go, in arithmetic that wraps around.
static void plain(const int16_t *block, uint8_t *out, int64_t stride) {
	uint32_t b[64];
	for (int i = 0; i < 64; i++) b[i] = (uint32_t)block[i];
	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < 8; i++) {
			uint32_t *p = pass ? b + 8 * i : b + i;
			int step = pass ? 1 : 8;
			uint32_t x0 = p[0], x1 = p[step], x2 = p[2 * step], x3 = p[3 * step];
			uint32_t x4 = p[4 * step], x5 = p[5 * step], x6 = p[6 * step], x7 = p[7 * step];
			uint32_t z = (x2 + x6) * f0541;
			uint32_t e2 = z - x6 * f1847, e3 = z + x2 * f0765;
			uint32_t e0 = (x0 + x4) << const_bits, e1 = (x0 - x4) << const_bits;
			uint32_t a0 = e0 + e3, a3 = e0 - e3, a1 = e1 + e2, a2 = e1 - e2;
			uint32_t z1 = x7 + x1, z2 = x5 + x3, z3 = x7 + x3, z4 = x5 + x1, z5 = (z3 + z4) * f1175;
			z1 = 0 - z1 * f0899, z2 = 0 - z2 * f2562;
			z3 = z5 - z3 * f1961, z4 = z5 - z4 * f0390;
			uint32_t b0 = x7 * f0298 + z1 + z3, b1 = x5 * f2053 + z2 + z4;
			uint32_t b2 = x3 * f3072 + z2 + z3, b3 = x1 * f1501 + z1 + z4;
			uint32_t y[8] = {a0 + b3, a1 + b2, a2 + b1, a3 + b0, a3 - b0, a2 - b1, a1 - b2, a0 - b3};
			int shift = pass ? const_bits + pass_bits + 3 : const_bits - pass_bits;
			for (int k = 0; k < 8; k++) p[k * step] = (uint32_t)((int32_t)(y[k] + (1u << (shift - 1))) >> shift);
		}
	}
	for (int y = 0; y < 8; y++)
		for (int x = 0; x < 8; x++) out[y * stride + x] = pixel((int32_t)b[8 * y + x]);
}

// both makes a vector with the same pair of factors in every place.
#define both(a, b) _mm256_set1_epi32((int32_t)((uint32_t)(uint16_t)(int16_t)(a) | (uint32_t)(uint16_t)(int16_t)(b) << 16))

// butterfly is the one-dimensional transform of 8 columns at once. Its inputs come in pairs,
// and each product with two of them is one instruction; for that the factors of dct.go are
// multiplied out. The results are rounded and shifted.
INLINE void butterfly(__m256i p04, __m256i p26, __m256i p13, __m256i p57, int shift, __m256i y[8]) {
	const __m256i round = _mm256_set1_epi32(1 << (shift - 1));
	__m256i e0 = _mm256_add_epi32(_mm256_madd_epi16(p04, both(1 << const_bits, 1 << const_bits)), round);
	__m256i e1 = _mm256_add_epi32(_mm256_madd_epi16(p04, both(1 << const_bits, -(1 << const_bits))), round);
	__m256i e2 = _mm256_madd_epi16(p26, both(f0541, f0541 - f1847));
	__m256i e3 = _mm256_madd_epi16(p26, both(f0541 + f0765, f0541));
	__m256i a0 = _mm256_add_epi32(e0, e3), a3 = _mm256_sub_epi32(e0, e3);
	__m256i a1 = _mm256_add_epi32(e1, e2), a2 = _mm256_sub_epi32(e1, e2);
#define odd(x1, x3, x5, x7) _mm256_add_epi32(_mm256_madd_epi16(p13, both(x1, x3)), _mm256_madd_epi16(p57, both(x5, x7)))
	__m256i b0 = odd(f1175 - f0899, f1175 - f1961, f1175, f1175 + f0298 - f0899 - f1961);
	__m256i b1 = odd(f1175 - f0390, f1175 - f2562, f1175 + f2053 - f2562 - f0390, f1175);
	__m256i b2 = odd(f1175, f1175 + f3072 - f2562 - f1961, f1175 - f2562, f1175 - f1961);
	__m256i b3 = odd(f1175 + f1501 - f0899 - f0390, f1175, f1175 - f0390, f1175 - f0899);
#undef odd
	y[0] = _mm256_srai_epi32(_mm256_add_epi32(a0, b3), shift);
	y[7] = _mm256_srai_epi32(_mm256_sub_epi32(a0, b3), shift);
	y[1] = _mm256_srai_epi32(_mm256_add_epi32(a1, b2), shift);
	y[6] = _mm256_srai_epi32(_mm256_sub_epi32(a1, b2), shift);
	y[2] = _mm256_srai_epi32(_mm256_add_epi32(a2, b1), shift);
	y[5] = _mm256_srai_epi32(_mm256_sub_epi32(a2, b1), shift);
	y[3] = _mm256_srai_epi32(_mm256_add_epi32(a3, b0), shift);
	y[4] = _mm256_srai_epi32(_mm256_sub_epi32(a3, b0), shift);
}

// pairs interleaves two rows of eight.
INLINE __m256i pairs(__m128i a, __m128i b) {
	return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_unpacklo_epi16(a, b)), _mm_unpackhi_epi16(a, b), 1);
}

// Between the passes, values have 16 bits here and 32 in dct.go. Eight coefficients of up to
// `usual` fit: the sum of their factors is 7.47, and there are 2 bits of fraction. Only damaged
// images have larger ones.
enum { usual = 1096 };

AVX2 void gpustall_inverse(const int16_t *block, uint8_t *out, int64_t stride) {
	const __m256i *in = (const __m256i *)block;
	__m256i largest = _mm256_max_epu16(_mm256_max_epu16(_mm256_abs_epi16(in[0]), _mm256_abs_epi16(in[1])),
	                                   _mm256_max_epu16(_mm256_abs_epi16(in[2]), _mm256_abs_epi16(in[3])));
	largest = _mm256_subs_epu16(largest, _mm256_set1_epi16(usual));
	if (__builtin_expect(!_mm256_testz_si256(largest, largest), 0)) {
		plain(block, out, stride);
		return;
	}
	const __m128i *row = (const __m128i *)block;
	__m256i y[8], q[4];
	butterfly(pairs(row[0], row[4]), pairs(row[2], row[6]), pairs(row[1], row[3]), pairs(row[5], row[7]),
	          const_bits - pass_bits, y);
	// Rows r and r+4 in the halves of a register, columns in pairs; then pairs of all rows.
	const __m256i order = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 8, 9, 4, 5, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
	for (int r = 0; r < 4; r++)
		q[r] = _mm256_shuffle_epi8(_mm256_permute4x64_epi64(_mm256_packs_epi32(y[r], y[r + 4]), 0xd8), order);
	__m256i t0 = _mm256_unpacklo_epi32(q[0], q[1]), t1 = _mm256_unpacklo_epi32(q[2], q[3]);
	__m256i t2 = _mm256_unpackhi_epi32(q[0], q[1]), t3 = _mm256_unpackhi_epi32(q[2], q[3]);
	butterfly(_mm256_unpacklo_epi64(t0, t1), _mm256_unpackhi_epi64(t0, t1), _mm256_unpacklo_epi64(t2, t3),
	          _mm256_unpackhi_epi64(t2, t3), const_bits + pass_bits + 3, y);
	// Clamped as signed bytes, then shifted by 128.
	const __m256i level = _mm256_set1_epi8(-128);
	const __m256i rows = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
	__m256i e = _mm256_packs_epi16(_mm256_packs_epi32(y[0], y[1]), _mm256_packs_epi32(y[2], y[3]));
	__m256i f = _mm256_packs_epi16(_mm256_packs_epi32(y[4], y[5]), _mm256_packs_epi32(y[6], y[7]));
	e = _mm256_shuffle_epi8(_mm256_xor_si256(e, level), rows);
	f = _mm256_shuffle_epi8(_mm256_xor_si256(f, level), rows);
	__m256i g = _mm256_unpacklo_epi32(e, f), h = _mm256_unpackhi_epi32(e, f);
#define put(r, v) _mm_storel_epi64((__m128i *)(out + (r) * stride), v)
#define put_high(r, v) _mm_storeh_pd((double *)(out + (r) * stride), _mm_castsi128_pd(v))
	put(0, _mm256_castsi256_si128(g)), put_high(1, _mm256_castsi256_si128(g));
	put(2, _mm256_castsi256_si128(h)), put_high(3, _mm256_castsi256_si128(h));
	put(4, _mm256_extracti128_si256(g, 1)), put_high(5, _mm256_extracti128_si256(g, 1));
	put(6, _mm256_extracti128_si256(h, 1)), put_high(7, _mm256_extracti128_si256(h, 1));
}
