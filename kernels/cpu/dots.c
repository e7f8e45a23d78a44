#include <string.h>

#include "dots.h"

#ifdef KNOWS_AMX
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

// dots_best asks the processor for the instructions, and the system for the tiles' registers. Linux
// gives these to a process on request (arch_prctl(2), ARCH_REQ_XCOMP_PERM of XFEATURE_XTILEDATA).
int dots_best(void) {
	unsigned a, b, c, d, eax;
	if (!__get_cpuid_count(7, 1, &eax, &b, &c, &d) || !(eax & 1 << 5)) return NO_DOTS;
	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return NO_DOTS;
#if defined(__linux__)
	const unsigned tile = 1u << 24, bf16 = 1u << 22;
	if ((d & tile) && (d & bf16) && syscall(SYS_arch_prctl, 0x1023, 18) == 0) return DOTS_TILES;
#endif
	return DOTS_VECTORS;
}

#include "amx.h"

// finish writes rows of one or two vectors of sums.
static inline __attribute__((always_inline)) void finish(dim rows, dim width, const float *sums, char *c, dim ldc,
                                                         const float *bias, dim flags) {
	vec zero = {}, b0 = bias ? load_n(bias, width) : zero;
	vec b1 = bias && width > LANES ? load_n(bias + LANES, width - LANES) : zero;
	dim size = flags & HALVES ? 2 : 4;
	for (dim r = 0; r < rows; r++, sums += DOTS, c += ldc * size) {
		vec s0 = load(sums) + b0, s1 = load(sums + LANES) + b1;
		half *h = (half *)c;
		float *f = (float *)c;
		if (flags & ACCUMULATE) {
			s0 += flags & HALVES ? load_half_n(h, width) : load_n(f, width);
			if (width > LANES) s1 += flags & HALVES ? load_half_n(h + LANES, width - LANES) : load_n(f + LANES, width - LANES);
		}
		if (flags & RELU) s0 = relu(s0), s1 = relu(s1);
		if (flags & HALVES && width == DOTS) {
			_mm512_storeu_si512(h, (__m512i)_mm512_cvtne2ps_pbh((__m512)s1, (__m512)s0));
		} else if (flags & HALVES) {
			store_half_n(h, s0, width);
			if (width > LANES) store_half_n(h + LANES, s1, width - LANES);
		} else {
			store_n(f, s0, width);
			if (width > LANES) store_n(f + LANES, s1, width - LANES);
		}
	}
}

// tiles computes a block of top and low rows and DOTS columns.
static inline __attribute__((always_inline)) void tiles(dim k, const struct rows16 *a, const half *p, const half *b, int low,
                                                        float *sums) {
	const half *q = p + a->block;
	_tile_zero(0);
	_tile_zero(1);
	if (low) {
		_tile_zero(2);
		_tile_zero(3);
	}
	for (dim i = 0; i < k; i += DOTS, p += a->step, q += a->step, b += DOTS * DOTS) {
		_tile_loadd(6, b, 4 * DOTS);
		_tile_loadd(4, p, 2 * a->ld);
		_tile_loadd(7, b + DOTS, 4 * DOTS);
		_tile_dpbf16ps(0, 4, 6);
		_tile_dpbf16ps(1, 4, 7);
		if (low) {
			_tile_loadd(5, q, 2 * a->ld);
			_tile_dpbf16ps(2, 5, 6);
			_tile_dpbf16ps(3, 5, 7);
		}
	}
	_tile_stored(0, sums, 4 * DOTS);
	_tile_stored(1, sums + LANES, 4 * DOTS);
	if (low) {
		_tile_stored(2, sums + 16 * DOTS, 4 * DOTS);
		_tile_stored(3, sums + 16 * DOTS + LANES, 4 * DOTS);
	}
}

static void gemm_tiles(dim m, dim n, dim k, const struct rows16 *a, const half *b, char *c, dim ldc, const float *bias, dim flags) {
	float sums[32 * DOTS] __attribute__((aligned(64)));
	dim whole = m / 32 * 32, size = flags & HALVES ? 2 : 4, panel = k * DOTS;
	if (whole > 0) configure(16, 16);
	for (dim j = 0; j < n && whole > 0; j += DOTS)
		for (dim i = 0; i < whole; i += 32) {
			tiles(k, a, a->p + i / 16 * a->block, b + j / DOTS * panel, 1, sums);
			finish(32, min_dim(n - j, DOTS), sums, c + (i * ldc + j) * size, ldc, bias ? bias + j : 0, flags);
		}
	if (whole < m) {
		dim top = min_dim(m - whole, 16), low = m - whole - top;
		configure(top, low);
		for (dim j = 0; j < n; j += DOTS) {
			const half *p = a->p + whole / 16 * a->block, *panels = b + j / DOTS * panel;
			if (low) tiles(k, a, p, panels, 1, sums);
			else tiles(k, a, p, panels, 0, sums);
			finish(m - whole, min_dim(n - j, DOTS), sums, c + (whole * ldc + j) * size, ldc, bias ? bias + j : 0, flags);
		}
	}
	_tile_release();
}

#define VECTORS(R)                                                                                     \
	static void vectors_##R(dim k, const struct rows16 *a, const half *p, const half *b, float *sums) {   \
		__m512 acc[R][2];                                                                             \
		_Pragma("GCC unroll 8") for (int i = 0; i < R; i++) acc[i][0] = acc[i][1] = _mm512_setzero_ps();  \
		for (dim q = 0; q < k; q += DOTS, p += a->step)                                               \
			for (dim pair = 0; pair < DOTS; pair += 2, b += 2 * DOTS) {                               \
				__m512bh b0 = (__m512bh)_mm512_loadu_si512(b), b1 = (__m512bh)_mm512_loadu_si512(b + DOTS); \
				_Pragma("GCC unroll 8") for (int i = 0; i < R; i++) {                                 \
					int two;                                                                          \
					memcpy(&two, p + i * a->ld + pair, 4);                                            \
					__m512bh x = (__m512bh)_mm512_set1_epi32(two);                                    \
					acc[i][0] = _mm512_dpbf16_ps(acc[i][0], x, b0);                                   \
					acc[i][1] = _mm512_dpbf16_ps(acc[i][1], x, b1);                                   \
				}                                                                                     \
			}                                                                                         \
		_Pragma("GCC unroll 8") for (int i = 0; i < R; i++) {                                         \
			_mm512_storeu_ps(sums + i * DOTS, acc[i][0]);                                             \
			_mm512_storeu_ps(sums + i * DOTS + LANES, acc[i][1]);                                     \
		}                                                                                             \
	}
VECTORS(1)
VECTORS(4)
VECTORS(8)
#undef VECTORS

static void gemm_vectors(dim m, dim n, dim k, const struct rows16 *a, const half *b, char *c, dim ldc, const float *bias, dim flags) {
	float sums[8 * DOTS];
	dim size = flags & HALVES ? 2 : 4;
	for (dim j = 0; j < n; j += DOTS, b += k * DOTS)
		for (dim i = 0, rows; i < m; i += rows) {
			const half *p = a->p + i / 16 * a->block + i % 16 * a->ld;
			dim left = min_dim(m - i, 16 - i % 16);
			if (left >= 8) rows = 8, vectors_8(k, a, p, b, sums);
			else if (left >= 4) rows = 4, vectors_4(k, a, p, b, sums);
			else rows = 1, vectors_1(k, a, p, b, sums);
			finish(rows, min_dim(n - j, DOTS), sums, c + (i * ldc + j) * size, ldc, bias ? bias + j : 0, flags);
		}
}

void dots_gemm(int how, dim m, dim n, dim k, const struct rows16 *a, const half *b, void *c, dim ldc,
               const float *bias, dim flags) {
	(how == DOTS_TILES ? gemm_tiles : gemm_vectors)(m, n, k, a, b, c, ldc, bias, flags);
}

// weave writes DOTS pairs of one element of a and one of b each.
static inline __attribute__((always_inline)) void weave(__m512i a, __m512i b, half *out) {
	static const uint16_t order[64] __attribute__((aligned(64))) = {
		0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39, 8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47,
		16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55, 24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63};
	_mm512_storeu_si512(out, _mm512_permutex2var_epi16(a, _mm512_load_si512(order), b));
	_mm512_storeu_si512(out + DOTS, _mm512_permutex2var_epi16(a, _mm512_load_si512(order + 32), b));
}

void pair_rows(dim n, dim k, const half *b, dim ldb, dim first, dim end, half *out, dim step) {
	for (dim j = first; j < end; j++) {
		half *o = out + j * step;
		__mmask32 some = n - j * DOTS >= DOTS ? ~0u : (1u << (n - j * DOTS)) - 1;
		for (dim p = 0; p < k; p += 2, o += 2 * DOTS) {
			const half *row = b + p * ldb + j * DOTS;
			__m512i next = p + 1 < k ? _mm512_maskz_loadu_epi16(some, row + ldb) : _mm512_setzero_si512();
			weave(_mm512_maskz_loadu_epi16(some, row), next, o);
		}
	}
}

void pair_tap(const struct window *g, const half *x, dim from, dim to, dim first, dim end, half *out, dim step) {
	static const half zeros[DOTS];
	dim image = from / (g->ow * g->oh), i = from / g->ow % g->oh, j = from % g->ow;
	dim h0 = g->dr - g->pad, w0 = g->ds - g->pad;
	dim h = i * g->stride + h0, w = j * g->stride + w0;
	const half *line = x + (image * g->h + h) * g->w * g->c;
	for (dim p = from; p < to; p += 2, out += 2 * DOTS) {
		const half *row[2] = {0, 0};
		for (int k = 0; k < 2 && p + k < to; k++) {
			if ((uint64_t)h < (uint64_t)g->h && (uint64_t)w < (uint64_t)g->w) row[k] = line + w * g->c;
			w += g->stride;
			if (++j < g->ow) continue;
			j = 0, w = w0, h += g->stride, line += g->stride * g->w * g->c;
			if (++i < g->oh) continue;
			i = 0, h = h0, image++, line = x + (image * g->h + h) * g->w * g->c;
		}
		half *o = out;
		if (row[0] && row[1])
			for (dim c = first; c < end; c += DOTS, o += step) weave(_mm512_loadu_si512(row[0] + c), _mm512_loadu_si512(row[1] + c), o);
		else
			for (dim c = first; c < end; c += DOTS, o += step)
				weave(_mm512_loadu_si512(row[0] ? row[0] + c : zeros), _mm512_loadu_si512(row[1] ? row[1] + c : zeros), o);
	}
}

void turn_rows(dim n, dim k, const half *b, dim ldb, half *out, dim block) {
	for (dim p = 0; p < k; p += DOTS, out += 16 * DOTS)
		for (dim j = 0; j < n; j += 16) {
			// Rows of 16 pairs, one pair for each column; then 16 x 16 pairs are transposed.
			__m512i pairs[16];
			for (dim i = 0; i < 16; i++) {
				const half *row = b + (p + 2 * i) * ldb + j;
				__m512i lo = _mm512_setzero_si512(), hi = lo;
				if (p + 2 * i < k) lo = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)row));
				if (p + 2 * i + 1 < k) hi = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(row + ldb)));
				pairs[i] = _mm512_or_si512(lo, _mm512_slli_epi32(hi, 16));
			}
			transpose16(pairs, (uint32_t *)(out + j / 16 * block), DOTS / 2);
		}
}

void scatter_rows(dim first, dim end, dim oh, dim ow, dim h, dim w, dim h0, dim w0, dim stride, dim c, const half *from,
                  half *to, dim flags) {
	for (dim p = first; p < end; p++, from += c) {
		half *o = to + ((p / (oh * ow) * h + h0 + p / ow % oh * stride) * w + w0 + p % ow * stride) * c;
		for (dim j = 0; j < c; j += LANES) {
			vec v = load_half_n(from + j, c - j);
			if (flags & ACCUMULATE) v += load_half_n(o + j, c - j);
			store_half_n(o + j, v, c - j);
		}
	}
}
AMX_END

#else // never called, since dots_best finds no instructions here

int dots_best(void) { return NO_DOTS; }
void dots_gemm(int how, dim m, dim n, dim k, const struct rows16 *a, const half *b, void *c, dim ldc, const float *bias, dim flags) {}
void pair_rows(dim n, dim k, const half *b, dim ldb, dim first, dim end, half *out, dim step) {}
void pair_tap(const struct window *g, const half *x, dim from, dim to, dim first, dim end, half *out, dim step) {}
void turn_rows(dim n, dim k, const half *b, dim ldb, half *out, dim block) {}
void scatter_rows(dim first, dim end, dim oh, dim ow, dim h, dim w, dim h0, dim w0, dim stride, dim c, const half *from, half *to, dim flags) {}

#endif
