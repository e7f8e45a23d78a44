// Code that is compiled for AMX and AVX512_BF16 comes after this header and ends with AMX_END. Code for
// every processor comes before it.
#ifndef GPUSTALL_KERNELS_CPU_AMX_H
#define GPUSTALL_KERNELS_CPU_AMX_H

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16,avx2,fma"))), apply_to = function)
#define AMX_END _Pragma("clang attribute pop")
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16,avx2,fma")
#define AMX_END
#endif
#define LANES 16
#include "simd.h"

// AMX's registers are eight tiles of up to 16 rows of 64 bytes, whose sizes are set before use.
struct tile_config {
	uint8_t palette, start, unused[14];
	uint16_t bytes[16];
	uint8_t rows[16];
} __attribute__((aligned(64)));

// configure sets tiles 0 and 1 to top rows of sums, 2 and 3 to low rows, 4 and 5 to the left
// operands of these, and 6 and 7 to pairs of 16 columns.
static inline __attribute__((always_inline)) void configure(int64_t top, int64_t low) {
	struct tile_config t = {1};
	const uint8_t rows[8] = {top, top, low, low, top, low, 16, 16};
	for (int i = 0; i < 8; i++) t.bytes[i] = rows[i] ? 64 : 0, t.rows[i] = rows[i];
	// gcc 12 believes that the instruction reads 8 bytes only, and may not write the others.
	__asm__ volatile("" : : "m"(t) : "memory");
	_tile_loadconfig(&t);
}

// transpose16 writes the columns of 16 x 16 words as rows, `step` words apart. It exchanges words, then
// pairs of words, then quarters of a vector.
static inline __attribute__((always_inline)) void transpose16(const __m512i *in, uint32_t *out, int64_t step) {
	__m512i a[16], b[16];
	_Pragma("GCC unroll 8") for (int i = 0; i < 16; i += 2) {
		a[i] = _mm512_unpacklo_epi32(in[i], in[i + 1]);
		a[i + 1] = _mm512_unpackhi_epi32(in[i], in[i + 1]);
	}
	_Pragma("GCC unroll 4") for (int i = 0; i < 16; i += 4) // b[i + k]: columns k, 4 + k, 8 + k, 12 + k of four rows
		_Pragma("GCC unroll 2") for (int k = 0; k < 2; k++) {
			b[i + 2 * k] = _mm512_unpacklo_epi64(a[i + k], a[i + 2 + k]);
			b[i + 2 * k + 1] = _mm512_unpackhi_epi64(a[i + k], a[i + 2 + k]);
		}
	_Pragma("GCC unroll 4") for (int k = 0; k < 4; k++) {
		__m512i lo = _mm512_shuffle_i32x4(b[k], b[4 + k], 0x88), hi = _mm512_shuffle_i32x4(b[8 + k], b[12 + k], 0x88);
		__m512i lo2 = _mm512_shuffle_i32x4(b[k], b[4 + k], 0xdd), hi2 = _mm512_shuffle_i32x4(b[8 + k], b[12 + k], 0xdd);
		_mm512_storeu_si512(out + k * step, _mm512_shuffle_i32x4(lo, hi, 0x88));
		_mm512_storeu_si512(out + (8 + k) * step, _mm512_shuffle_i32x4(lo, hi, 0xdd));
		_mm512_storeu_si512(out + (4 + k) * step, _mm512_shuffle_i32x4(lo2, hi2, 0x88));
		_mm512_storeu_si512(out + (12 + k) * step, _mm512_shuffle_i32x4(lo2, hi2, 0xdd));
	}
}

#endif
