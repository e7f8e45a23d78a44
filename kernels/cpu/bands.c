#include <string.h>

#include "bands.h"

#ifdef KNOWS_AMX
#include "amx.h"
#include "axes.h"
#include "thirdpart.h"

#define LINE 32 // bfloat16s

enum { POSITIONS = 6, TAPS = 3 };

// across is the lines of an image's row.
static dim across(const struct band *b) { return (b->ow + 3) / 4; }

// clear_lines clears lines of all planes.
static void clear_lines(const struct band *b, half *out, dim lines) {
	for (dim i = 0; i < 3 * POSITIONS * b->c / LINE; i++) memset(out + i * b->plane * LINE, 0, lines * LINE * sizeof(half));
}

static inline __attribute__((always_inline)) void split_line(vec x, vec y, half *out, dim plane) {
	__m512 lo = (__m512)x, hi = (__m512)y;
	__m512i line;
	for (int t = 0; t < 3; t++) {
		part(&lo, &hi, &line);
		_mm512_store_si512(out + t * plane, line);
	}
}

// split_row transforms 32 channels of a row of pixels, and splits them.
static void split_row(const struct band *b, const float *x, half *out) {
	for (dim j = -b->pad; j < b->ow - b->pad; j += 4, out += LINE) {
		vec d[2][6], o[2][6];
		EACH(s, 6) {
			int inside = j + s >= 0 && j + s < b->w;
			EACH(i, 2) d[i][s] = inside ? load(x + (j + s) * b->c + i * LANES) : (vec){};
		}
		EACH(i, 2) mul_bt(d[i], o[i]);
		EACH(s, 6) split_line(o[0][s], o[1][s], out + 3 * s * b->plane * LINE, b->plane * LINE);
	}
}

void band_split(const struct band *b, const float *x, half *out) {
	dim wide = across(b);
	for (dim h = b->row - b->pad; h < b->row - b->pad + b->rows + 2; h++, out += wide * b->group * LINE) {
		if (h < 0 || h >= b->h) {
			clear_lines(b, out, wide * b->group);
			continue;
		}
		for (dim g = 0; g < b->images; g++)
			for (dim c = 0; c < b->c; c += LINE)
				split_row(b, x + (g * b->h + h) * b->w * b->c + c, out + (3 * POSITIONS * (c / LINE) * b->plane + g * wide) * LINE);
	}
}

void band_filters(const struct band *b, dim back, const float *w, dim panel, dim chunk, half *out) {
	float turned[6][THIRDS_N * THIRDS_K] __attribute__((aligned(64)));
	dim wide = back ? b->k : b->c, row = back ? chunk * THIRDS_K : panel * THIRDS_N;
	dim step = b->c / THIRDS_K * TAPS * THIRDS_RIGHT;
	w += row * 9 * wide + (back ? panel * THIRDS_N : chunk * THIRDS_K);
	out += panel * POSITIONS * step + chunk * TAPS * THIRDS_RIGHT;
	for (dim r = 0; r < 3; r++, out += THIRDS_RIGHT) {
		for (dim n = 0; n < THIRDS_N; n++)
			for (dim c = 0; c < THIRDS_K; c += LANES) {
				const float *from = w + (n * 9 + (back ? 8 - 3 * r : 3 * r)) * wide + c;
				dim next = back ? -wide : wide;
				vec g[3] = {load(from), load(from + next), load(from + 2 * next)}, o[6];
				mul_g(g, o);
				EACH(s, 6) store(turned[s] + n * THIRDS_K + c, o[s]);
			}
		EACH(s, 6) thirds_right(THIRDS_N, THIRDS_K, turned[s], THIRDS_K, !back, 0, 1, out + s * step, 0);
	}
}

// meets reports whether a tap of result lines first..end reads anything but padding.
static int meets(const struct band *b, dim first, dim end, dim tap) {
	dim wide = across(b) * b->group, h = b->row + tap - b->pad;
	return h + (end - 1) / wide >= 0 && h + first / wide < b->h;
}

#define LEFT(third)                                                                                 \
	_tile_loadd(4, top + third * plane, 2 * LINE);                                                  \
	if (both) _tile_loadd(5, low + third * plane, 2 * LINE);

// soon is what is fetched into the cache meanwhile. Each tap of 32 channels fetches some lines of the
// outputs of these sums, and some of what is read next.
struct soon {
	float *const *out, *const *end;
	struct ahead ahead;
	dim done; // lines of the run
	dim outputs, next;
};

static inline __attribute__((always_inline)) void fetch(struct soon *s) {
	for (dim i = 0; i < s->outputs && s->out < s->end; i++, s->out++)
		__builtin_prefetch(*s->out, 1), __builtin_prefetch(*s->out ? *s->out + LANES : 0, 1);
	for (dim i = 0; i < s->next && s->ahead.runs > 0; i++) {
		__builtin_prefetch(s->ahead.at + s->done * LANES, 0, 2);
		if (++s->done < s->ahead.lines) continue;
		s->done = 0, s->ahead.runs--, s->ahead.at += s->ahead.step;
	}
}

// sum adds up taps from..to of one tile or two, for THIRDS_N outputs at a position. A store of a tile
// takes 0.25 us if none came in the 0.8 us before, and products stop meanwhile. (This was measured; no
// manual says so.) So a dummy store is made now and then.
static inline __attribute__((always_inline)) void sum(const struct band *b, dim from, dim to, const half *a, const half *panel,
                                                      struct soon *soon, float *out, float *waste, const int both) {
	dim plane = b->plane * LINE, step = 3 * POSITIONS * plane, width = TAPS * THIRDS_RIGHT, wide = across(b) * b->group;
	_tile_zero(0);
	_tile_zero(1);
	if (both) {
		_tile_zero(2);
		_tile_zero(3);
	}
	dim busy = 0;
	for (dim c = 0; c < b->c; c += THIRDS_K, a += step, panel += width)
		for (dim t = from; t < to; t++) {
			if (++busy % 4 == 0) _tile_stored(4, waste, 64);
			const half *top = a + t * wide * LINE, *low = top + 16 * LINE, *w = panel + t * THIRDS_RIGHT;
			fetch(soon);
			SIX_PRODUCTS(LEFT, w, both)
		}
	_tile_stored(0, out, 4 * THIRDS_N);
	_tile_stored(1, out + LANES, 4 * THIRDS_N);
	if (both) {
		_tile_stored(2, out + 16 * THIRDS_N, 4 * THIRDS_N);
		_tile_stored(3, out + 16 * THIRDS_N + LANES, 4 * THIRDS_N);
	}
}

// pixels lists the four outputs of each of 16 lines, null where the image has none.
static void pixels(const struct band *b, dim line, float *y, float **out) {
	dim wide = across(b), row = line / wide / b->group, g = line / wide % b->group, col = line % wide * 4;
	for (dim i = 0; i < 16; i++) {
		float *to = y + ((g * b->oh + b->row + row) * b->ow + col) * b->k;
		for (dim s = 0; s < 4; s++, to += b->k) *out++ = col + s < b->ow && g < b->images && row < b->rows ? to : 0;
		if ((col += 4) < b->ow) continue;
		col = 0;
		if (++g == b->group) g = 0, row++;
	}
}

// put writes 32 outputs of a pixel.
static inline __attribute__((always_inline)) void put(float *y, vec s0, vec s1, dim flags) {
	if (!y) return;
	if (flags & ACCUMULATE) s0 += load(y), s1 += load(y + LANES);
	if (flags & RELU) s0 = relu(s0), s1 = relu(s1);
	store(y, s0), store(y + LANES, s1);
}

// finish turns lines of sums of six positions, `step` apart, into four pixels each.
static void finish(const float *sums, dim step, float **out, dim lines, vec b0, vec b1, dim flags) {
	for (dim i = 0; i < lines; i++, sums += THIRDS_N, out += 4) {
		vec m[2][6], o[2][4];
		EACH(s, 6) m[0][s] = load(sums + s * step), m[1][s] = load(sums + s * step + LANES);
		EACH(j, 2) mul_at(m[j], o[j]);
		EACH(s, 4) put(out[s], o[0][s] + b0, o[1][s] + b1, flags);
	}
}

static dim per(dim n, dim uses) { return (n + uses - 1) / uses; }

void band_multiply(const struct band *b, const half *a, const half *filters, float *y, const float *bias, dim flags,
                   const struct ahead *ahead) {
	float sums[6][32 * THIRDS_N] __attribute__((aligned(64)));
	float waste[16 * LANES] __attribute__((aligned(64)));
	float *out[2 * 16 * 4];
	dim tiles = per(b->rows * across(b) * b->group, 16), pairs = per(tiles, 2), times = POSITIONS * b->c / THIRDS_K; // of a pair's taps
	dim step = b->c / THIRDS_K * TAPS * THIRDS_RIGHT, panel = POSITIONS * step;
	struct soon soon = {.ahead = *ahead};
	soon.next = per(ahead->runs * ahead->lines, pairs * times * (TAPS - 1) * b->k / THIRDS_N);
	vec zero = {};
	configure(16, 16);
	for (dim j = 0; j < b->k; j += THIRDS_N, filters += panel) {
		vec b0 = bias ? load(bias + j) : zero, b1 = bias ? load(bias + j + LANES) : zero;
		for (dim t = 0; t < tiles; t += 2) {
			int both = t + 1 < tiles;
			dim from = 0, to = TAPS, lines = both ? 32 : 16;
			while (from < to && !meets(b, 16 * t, 16 * t + lines, from)) from++;
			while (to > from && !meets(b, 16 * t, 16 * t + lines, to - 1)) to--;
			pixels(b, 16 * t, y + j, out);
			if (both) pixels(b, 16 * (t + 1), y + j, out + 64);
			soon.out = out, soon.end = out + 4 * lines, soon.outputs = per(4 * lines, times * (to - from) + 1);
			for (dim s = 0; s < POSITIONS; s++) {
				const half *left = a + (3 * s * b->plane + 16 * t) * LINE, *right = filters + s * step;
				if (both) sum(b, from, to, left, right, &soon, sums[s], waste, 1);
				else sum(b, from, to, left, right, &soon, sums[s], waste, 0);
			}
			finish(sums[0], 32 * THIRDS_N, out, lines, b0, b1, flags);
		}
	}
	_tile_release();
}

AMX_END

#else // never called, since bestDots finds no tiles here

void band_split(const struct band *b, const float *x, half *out) {}
void band_filters(const struct band *b, dim back, const float *w, dim panel, dim chunk, half *out) {}
void band_multiply(const struct band *b, const half *a, const half *filters, float *y, const float *bias, dim flags,
                   const struct ahead *ahead) {}

#endif
