#include "planes_amd64.h"

#include "interleave_amd64.h"
#include "normalise_amd64.h"

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx2,fma")))

enum { width = 32, line = 64 };

// fetch prefetches, for each row, a part of the bytes that are read later.
INLINE void fetch(const struct gpustall_image *m, ptrdiff_t row, ptrdiff_t rows) {
	if (!m->soon) return;
	const size_t lines = (3 * width * rows + line - 1) / line;
	for (size_t i = lines * row / rows; i < lines * (row + 1) / rows; i++)
		_mm_prefetch((const char *)m->soon + line * i, _MM_HINT_T1);
}

// columns returns, for each column of the result, the column of the image that it comes from.
// Columns outside of the image are not within 0 to 31.
INLINE __m256i columns(const struct gpustall_image *m) {
	const __m256i up = _mm256_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,
	                                    24, 25, 26, 27, 28, 29, 30, 31);
	return m->flip ? _mm256_sub_epi8(_mm256_set1_epi8(m->dx + width - 1), up) : _mm256_add_epi8(_mm256_set1_epi8(m->dx), up);
}

INLINE void narrow(const struct gpustall_image *m, ptrdiff_t rows, const struct norm *norm, int past, float *out) {
	// These say whether a column lies in the same half of its row (here) or in the other
	// (there). A shuffle makes a zero of all indices but 0x70 to 0x7f.
	const __m256i half = _mm256_inserti128_si256(_mm256_setzero_si256(), _mm_set1_epi8(16), 1);
	const __m256i other = _mm256_sub_epi8(_mm256_set1_epi8(16), half), at = columns(m), bias = _mm256_set1_epi8(0x70);
	const __m256i here = _mm256_adds_epu8(_mm256_sub_epi8(at, half), bias), there = _mm256_adds_epu8(_mm256_sub_epi8(at, other), bias);
	for (ptrdiff_t i = 0; i < rows; i++, out += 3 * width) {
		const ptrdiff_t row = i + m->dy;
		fetch(m, i, rows);
		__m256i x[3], t[3];
		for (int p = 0; p < 3; p++) {
			__m256i v = _mm256_setzero_si256();
			if (row >= 0 && row < rows) v = _mm256_loadu_si256((const __m256i *)(m->planes + width * (rows * p + row)));
			x[p] = _mm256_or_si256(_mm256_shuffle_epi8(v, here), _mm256_shuffle_epi8(_mm256_permute2x128_si256(v, v, 1), there));
		}
		interleave32(x[0], x[1], x[2], t);
		__m128i bytes[6]; // of the row's pixels
		for (int j = 0; j < 3; j++) {
			bytes[j] = _mm256_castsi256_si128(t[j]);
			bytes[3 + j] = _mm256_extracti128_si256(t[j], 1);
		}
		for (int k = 0; k < 12; k += 3) {
			__m256i v[3];
			for (int j = 0; j < 3; j++) {
				__m128i b = bytes[(k + j) / 2];
				v[j] = _mm256_cvtepu8_epi32((k + j) % 2 ? _mm_srli_si128(b, 8) : b);
			}
			normalise(v, norm, past, out + 8 * k);
		}
	}
}

// A row's bytes are in this order: 32 red, then 32 green pixels in one register, and 32 blue
// ones in the next.
#define PIXEL(i) (i), 32 + (i), 64 + (i)
static const uint8_t interleaved[128] __attribute__((aligned(64))) = {
	PIXEL(0), PIXEL(1), PIXEL(2), PIXEL(3), PIXEL(4), PIXEL(5), PIXEL(6), PIXEL(7), PIXEL(8), PIXEL(9), PIXEL(10),
	PIXEL(11), PIXEL(12), PIXEL(13), PIXEL(14), PIXEL(15), PIXEL(16), PIXEL(17), PIXEL(18), PIXEL(19), PIXEL(20), PIXEL(21),
	PIXEL(22), PIXEL(23), PIXEL(24), PIXEL(25), PIXEL(26), PIXEL(27), PIXEL(28), PIXEL(29), PIXEL(30), PIXEL(31),
};

AVX512 static inline __m512 divide16(__m512 v, __m512 high, __m512 low) { return _mm512_fmadd_ps(v, high, _mm512_mul_ps(v, low)); }

AVX512 static void crop512(const struct gpustall_image *m, ptrdiff_t rows, const float *factors, float *out) {
	// The factors of 16 values that begin with a red, a green and a blue one.
	static const int first[3] = {0, 1, 2};
	__m512 mean[3], high[3], low[3];
	for (int j = 0; j < 3; j++) {
		mean[j] = _mm512_loadu_ps(factors + first[j]);
		high[j] = _mm512_loadu_ps(factors + 24 + first[j]);
		low[j] = _mm512_loadu_ps(factors + 48 + first[j]);
	}
	const float full = 1 / 255.0f;
	const __m512 one = _mm512_set1_ps(full), rest = _mm512_set1_ps((float)(1 / 255.0 - full));
	const __m256i at = columns(m);
	const __mmask32 inside = _mm256_cmplt_epu8_mask(at, _mm256_set1_epi8(width));
	const __m512i left = _mm512_load_si512(interleaved), right = _mm512_load_si512(interleaved + 64);
	for (ptrdiff_t i = 0; i < rows; i++, out += 3 * width) {
		const ptrdiff_t row = i + m->dy;
		fetch(m, i, rows);
		__m256i x[3] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
		if (row >= 0 && row < rows)
			for (int p = 0; p < 3; p++)
				x[p] = _mm256_maskz_permutexvar_epi8(inside, at, _mm256_loadu_si256((const __m256i *)(m->planes + width * (rows * p + row))));
		const __m512i rg = _mm512_inserti64x4(_mm512_castsi256_si512(x[0]), x[1], 1), b = _mm512_castsi256_si512(x[2]);
		const __m512i l = _mm512_permutex2var_epi8(rg, left, b), r = _mm512_permutex2var_epi8(rg, right, b);
		const __m128i bytes[6] = {
			_mm512_castsi512_si128(l), _mm512_extracti32x4_epi32(l, 1), _mm512_extracti32x4_epi32(l, 2), _mm512_extracti32x4_epi32(l, 3),
			_mm512_castsi512_si128(r), _mm512_extracti32x4_epi32(r, 1),
		};
		for (int k = 0; k < 6; k++) {
			__m512 v = divide16(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes[k])), one, rest);
			v = divide16(_mm512_sub_ps(v, mean[k % 3]), high[k % 3], low[k % 3]);
			_mm512_stream_ps(out + 16 * k, v);
		}
	}
}

AVX2 void gpustall_crop_planes(struct gpustall_images images, int n, ptrdiff_t rows, int wide, const float *factors, float *out) {
	const struct norm norm = norm_of(factors);
	const int past = (uintptr_t)out % line == 0;
	for (int i = 0; i < n; i++, out += 3 * width * rows) {
		const struct gpustall_image *m = &images.of[i];
		if (wide && past) crop512(m, rows, factors, out);
		else if (past) narrow(m, rows, &norm, 1, out);
		else narrow(m, rows, &norm, 0, out);
	}
	if (past) _mm_sfence();
}
