#include <string.h>

#include "thirds.h"

#ifdef KNOWS_AMX
#include "amx.h"
#include "thirdpart.h"

// left_row packs one row of n floats: THIRDS_K to a chunk, `out` in the first.
static inline __attribute__((always_inline)) void left_row(dim n, const float *a, half *out) {
	for (dim p = 0; p < n; p += THIRDS_K, out += THIRDS_LEFT) {
		__m512 x = some(a + p, n - p), y = some(a + p + LANES, n - p - LANES);
		__m512i line;
		for (int t = 0; t < 3; t++) {
			part(&x, &y, &line);
			_mm512_storeu_si512(out + t * 16 * THIRDS_K, line);
		}
	}
}

// no_row packs a row of zeros.
static void no_row(dim n, half *out) {
	for (dim p = 0; p < n; p += THIRDS_K, out += THIRDS_LEFT)
		for (int t = 0; t < 3; t++) _mm512_storeu_si512(out + t * 16 * THIRDS_K, _mm512_setzero_si512());
}

// turned_pairs makes pairs of neighbouring rows of 32 rows of 16 floats, and transposes them. The pairs
// of each of the 16 columns lie together, `step` words after those of the column before. The next 32
// rows are fetched meanwhile.
static inline __attribute__((always_inline)) void turned_pairs(dim columns, dim k, const float *a, dim lda, uint32_t *out,
                                                               dim third, dim step) {
	__m512i pairs[3][16], line;
	for (dim i = 0; i < 16; i++, a += 2 * lda) {
		__m512 x = some(a, 2 * i < k ? columns : 0), y = some(a + lda, 2 * i + 1 < k ? columns : 0);
		if (THIRDS_K + 2 * i < k) _mm_prefetch(a + THIRDS_K * lda, _MM_HINT_T0);
		if (THIRDS_K + 2 * i + 1 < k) _mm_prefetch(a + (THIRDS_K + 1) * lda, _MM_HINT_T0);
		for (int t = 0; t < 3; t++) pairs[t][i] = part(&x, &y, &line);
	}
	for (int t = 0; t < 3; t++) transpose16(pairs[t], out + t * third, step);
}

void thirds_left(dim m, dim k, const float *a, dim lda, half *out) {
	dim block = (k + THIRDS_K - 1) / THIRDS_K * THIRDS_LEFT;
	for (dim p = 0; p < k; p += THIRDS_K)
		for (dim i = 0; i < m; i += 16)
			turned_pairs(m - i, k - p, a + p * lda + i, lda, (uint32_t *)(out + i / 16 * block + p / THIRDS_K * THIRDS_LEFT),
			             16 * THIRDS_K / 2, THIRDS_K / 2);
}

// walk goes over the positions of a window's grid, with the pixel that one tap reads for each.
struct walk {
	const float *line; // column 0 of the row that is met
	dim i, j, h, w;
};

static struct walk walk_from(const struct window *g, const float *x, dim from) {
	struct walk k = {.i = from / g->ow % g->oh, .j = from % g->ow};
	k.h = k.i * g->stride + g->dr - g->pad, k.w = k.j * g->stride + g->ds - g->pad;
	k.line = x + (from / (g->ow * g->oh) * g->h + k.h) * g->w * g->c;
	return k;
}

// meet returns the pixel of the position, or null outside of the image, and goes on.
static inline __attribute__((always_inline)) const float *meet(const struct window *g, struct walk *k) {
	const float *pixel = (uint64_t)k->h < (uint64_t)g->h && (uint64_t)k->w < (uint64_t)g->w ? k->line + k->w * g->c : 0;
	k->w += g->stride;
	if (++k->j < g->ow) return pixel;
	k->j = 0, k->w = g->ds - g->pad, k->h += g->stride, k->line += g->stride * g->w * g->c;
	if (++k->i < g->oh) return pixel;
	dim skip = g->h - g->oh * g->stride;
	k->i = 0, k->h = g->dr - g->pad, k->line += skip * g->w * g->c;
	return pixel;
}

void thirds_tap(const struct window *g, const float *x, dim from, dim to, dim first, dim end, half *out, dim block) {
	struct walk k = walk_from(g, x, from);
	for (dim p = 0; p < (to - from + 15) / 16 * 16; p++) {
		half *o = out + p / 16 * block + p % 16 * THIRDS_K;
		const float *pixel = from + p < to ? meet(g, &k) : 0;
		if (pixel) left_row(end - first, pixel + first, o);
		else no_row(end - first, o);
	}
}

void thirds_pairs(const struct window *g, const float *x, dim from, dim to, dim first, dim end, half *out, dim step) {
	struct walk k = walk_from(g, x, from);
	const float *row[THIRDS_K], *next[THIRDS_K]; // of a chunk, and of the next, which is fetched meanwhile
	for (dim r = 0; r < THIRDS_K; r++) next[r] = from + r < to ? meet(g, &k) : 0;
	for (dim p = from; p < to; p += THIRDS_K, out += THIRDS_RIGHT) {
		memcpy(row, next, sizeof row);
		for (dim r = 0; r < THIRDS_K; r++) next[r] = p + THIRDS_K + r < to ? meet(g, &k) : 0;
		half *o = out;
		for (dim c = first; c < end; c += THIRDS_N, o += step)
			for (dim i = 0; i < 16; i++) {
				const float *upper = row[2 * i] + c, *lower = row[2 * i + 1] + c;
				dim some_upper = row[2 * i] ? end - c : 0, some_lower = row[2 * i + 1] ? end - c : 0;
				for (dim side = 0; side < THIRDS_N; side += LANES) {
					__m512 y = some(upper + side, some_upper - side), z = some(lower + side, some_lower - side);
					__m512i line;
					for (int t = 0; t < 3; t++)
						_mm512_storeu_si512(o + 2 * ((t * 16 + i) * THIRDS_N + side), part(&y, &z, &line));
					if (next[2 * i]) _mm_prefetch(next[2 * i] + c + side, _MM_HINT_T0);
					if (next[2 * i + 1]) _mm_prefetch(next[2 * i + 1] + c + side, _MM_HINT_T0);
				}
			}
	}
}

void thirds_right(dim n, dim k, const float *b, dim ldb, dim turned, dim first, dim end, half *out, dim step) {
	for (dim j = first; j < end; j++) {
		half *to = out + j * step;
		for (dim p = 0; p < k; p += THIRDS_K, to += THIRDS_RIGHT)
			for (dim side = 0; side < THIRDS_N; side += LANES) {
				dim col = j * THIRDS_N + side;
				uint32_t *o = (uint32_t *)to + side;
				__m512i pairs[3][16], line;
				for (dim i = 0; turned && i < 16; i++) { // row i is a column, and has 16 pairs
					const float *row = b + (col + i) * ldb + p;
					dim deep = col + i < n ? k - p : 0;
					__m512 x = some(row, deep), y = some(row + LANES, deep - LANES);
					for (int t = 0; t < 3; t++) part(&x, &y, &pairs[t][i]);
				}
				for (int t = 0; turned && t < 3; t++) transpose16(pairs[t], o + t * 16 * THIRDS_N, THIRDS_N);
				for (dim i = 0; !turned && i < 16; i++, o += THIRDS_N) {
					const float *row = b + (p + 2 * i) * ldb + col;
					__m512 x = some(row, p + 2 * i < k ? n - col : 0), y = some(row + ldb, p + 2 * i + 1 < k ? n - col : 0);
					for (int t = 0; t < 3; t++) _mm512_storeu_si512(o + t * 16 * THIRDS_N, part(&x, &y, &line));
				}
			}
	}
}

// LEFT loads a third of a chunk of 16 rows, or of 32: see SIX_PRODUCTS.
#define LEFT(third)                                                                                 \
	_tile_loadd(4, a + third * 16 * THIRDS_K, 2 * THIRDS_K);                                        \
	if (low) _tile_loadd(5, a + block + third * 16 * THIRDS_K, 2 * THIRDS_K);

// tiles computes or adds to a block of 32 or 16 rows and THIRDS_N columns. Meanwhile it fetches `lines`
// lines of what comes next for each chunk, into the second-level cache.
static inline __attribute__((always_inline)) const float *tiles(dim k, const half *a, dim block, const half *b, float *c, dim ldc,
                                                                const float *soon, dim lines, const int low, int add) {
	if (add) {
		_tile_loadd(0, c, 4 * ldc);
		_tile_loadd(1, c + LANES, 4 * ldc);
		if (low) {
			_tile_loadd(2, c + 16 * ldc, 4 * ldc);
			_tile_loadd(3, c + 16 * ldc + LANES, 4 * ldc);
		}
	} else {
		_tile_zero(0);
		_tile_zero(1);
		if (low) {
			_tile_zero(2);
			_tile_zero(3);
		}
	}
	// A store of a tile takes 0.25 us after 0.8 us without one (see bands.c). In long sums that is too
	// little to be worth dummy stores.
	float waste[16 * LANES] __attribute__((aligned(64)));
	dim spare = k < 1024 ? 4 * THIRDS_K : k;
	for (dim p = 0; p < k;) {
		if (p > 0) _tile_stored(7, waste, 64);
		for (dim end = min_dim(p + spare, k); p < end; p += THIRDS_K, a += THIRDS_LEFT, b += THIRDS_RIGHT) {
			for (dim i = 0; i < lines; i++, soon += 16) __builtin_prefetch(soon, 0, 2);
			SIX_PRODUCTS(LEFT, b, low)
		}
	}
	_tile_stored(0, c, 4 * ldc);
	_tile_stored(1, c + LANES, 4 * ldc);
	if (low) {
		_tile_stored(2, c + 16 * ldc, 4 * ldc);
		_tile_stored(3, c + 16 * ldc + LANES, 4 * ldc);
	}
	return soon;
}

// finish writes rows of one or two vectors of sums.
static void finish(dim rows, dim width, const float *sums, float *c, dim ldc, const float *bias, dim flags) {
	vec zero = {}, b0 = bias ? load_n(bias, width) : zero;
	vec b1 = bias && width > LANES ? load_n(bias + LANES, width - LANES) : zero;
	for (dim r = 0; r < rows; r++, sums += THIRDS_N, c += ldc) {
		vec s0 = load(sums) + b0, s1 = load(sums + LANES) + b1;
		if (flags & ACCUMULATE) {
			s0 += load_n(c, width);
			if (width > LANES) s1 += load_n(c + LANES, width - LANES);
		}
		if (flags & RELU) s0 = relu(s0), s1 = relu(s1);
		if (flags & STREAM && width >= THIRDS_N) {
			stream(c, s0), stream(c + LANES, s1);
			continue;
		}
		store_n(c, s0, width);
		if (width > LANES) store_n(c + LANES, s1, width - LANES);
	}
}

void thirds_gemm(dim m, dim n, dim k, const half *a, dim block, const half *b, dim panel, float *c, dim ldc,
                 const float *bias, dim flags, const float *soon, dim lines) {
	if (m == 0) return; // more threads than there are rows to share out
	dim chunks = (n + THIRDS_N - 1) / THIRDS_N * ((m + 31) / 32) * ((k + THIRDS_K - 1) / THIRDS_K);
	lines = (lines + chunks - 1) / chunks;
	float sums[32 * THIRDS_N] __attribute__((aligned(64)));
	if (!aligned(c, ldc)) flags &= ~STREAM;
	int plain = !bias && !(flags & (RELU | STREAM));
	configure(16, 16);
	for (dim j = 0; j < n; j += THIRDS_N, b += panel) {
		const half *left = a;
		for (dim i = 0; i < m; i += 32, left += 2 * block) {
			dim rows = min_dim(m - i, 32), width = min_dim(n - j, THIRDS_N);
			float *to = c + i * ldc + j, *out = sums;
			dim ld = THIRDS_N;
			if (plain && width == THIRDS_N && rows % 16 == 0) out = to, ld = ldc;
			else if (flags & ACCUMULATE)
				for (dim r = 0; r < rows; r++) __builtin_prefetch(to + r * ldc, 1), __builtin_prefetch(to + r * ldc + LANES, 1);
			int add = out == to && flags & ACCUMULATE;
			if (rows > 16) soon = tiles(k, left, block, b, out, ld, soon, lines, 1, add);
			else soon = tiles(k, left, block, b, out, ld, soon, lines, 0, add);
			if (out == sums) finish(rows, width, sums, to, ldc, bias ? bias + j : 0, flags);
		}
	}
	_tile_release();
	if (flags & STREAM) stream_end();
}

AMX_END

#else // never called, since bestDots finds no tiles here

void thirds_left(dim m, dim k, const float *a, dim lda, half *out) {}
void thirds_tap(const struct window *g, const float *x, dim from, dim to, dim first, dim end, half *out, dim block) {}
void thirds_pairs(const struct window *g, const float *x, dim from, dim to, dim first, dim end, half *out, dim step) {}
void thirds_right(dim n, dim k, const float *b, dim ldb, dim turned, dim first, dim end, half *out, dim step) {}
void thirds_gemm(dim m, dim n, dim k, const half *a, dim block, const half *b, dim panel, float *c, dim ldc,
                 const float *bias, dim flags, const float *soon, dim lines) {}

#endif
