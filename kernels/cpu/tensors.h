// Operations on tensors of REAL, element by element and over windows. GET and PUT read and write them;
// NAME gives the functions their names.

#ifndef TENSORS
#define TENSORS
typedef uint8_t bytes __attribute__((vector_size(LANES)));

// pool_wins returns where v replaces the maximum so far. The first of equal maxima stays, and a NaN
// replaces numbers.
static inline __attribute__((always_inline)) veci pool_wins(vec v, vec top) { return (v > top) | (v != v); }

// pool_frame returns the first frame of output pixel o's window, counted over all clips.
static inline dim pool_frame(const struct pool *p, dim o) {
	dim f = o / (p->oh * p->ow);
	return f / p->ot * p->t + f % p->ot * p->step;
}

// Most networks use windows of 2x2, of one or two frames, side by side and without padding. pool_cells
// returns how many elements such a window has, or 0 for other windows.
static inline int pool_cells(const struct pool *p) {
	int sides = p->size == 2 && p->stride == 2 && p->pad == 0 && p->deep == p->step && p->deep <= 2;
	return sides && p->c % LANES == 0 ? 4 * p->deep : 0;
}

// pool_covers reports whether such windows cover the whole input.
static inline int pool_covers(const struct pool *p) {
	return p->h == 2 * p->oh && p->w == 2 * p->ow && p->t == p->deep * p->ot;
}

#endif

// add computes y = a + b (then ReLU).
static void NAME(add)(dim n, const REAL *a, const REAL *b, REAL *y, dim flags) {
	for (dim i = 0; i < n; i += LANES) {
		dim k = min_dim(n - i, LANES);
		vec v = GET(a + i, k) + GET(b + i, k);
		PUT(y + i, flags & RELU ? relu(v) : v, k, 0);
	}
}

static void NAME(relu_back)(dim n, const REAL *dy, const REAL *y, REAL *dx) {
	for (dim i = 0; i < n; i += LANES) {
		dim k = min_dim(n - i, LANES);
		PUT(dx + i, pick(GET(y + i, k) > 0, GET(dy + i, k), (vec){}), k, 0);
	}
}

// max_pool_cells goes over output pixels first..end, row by row.
static inline __attribute__((always_inline)) void NAME(max_pool_cells)(const struct pool *p, dim first, dim end, const REAL *x, REAL *y,
                                                                 uint8_t *index, const int cells) {
	dim step[8];
	for (int t = 0; t < cells; t++) step[t] = ((t / 4 * p->h + t / 2 % 2) * p->w + t % 2) * p->c;
	y += first * p->c, index += first * p->c;
	for (dim o = first, n; o < end; o += n) {
		n = min_dim(end - o, p->ow - o % p->ow);
		const REAL *at = x + ((pool_frame(p, o) * p->h + o / p->ow % p->oh * 2) * p->w + o % p->ow * 2) * p->c;
		for (dim i = 0; i < n; i++, at += 2 * p->c, y += p->c, index += p->c)
			for (dim j = 0; j < p->c; j += LANES) {
				vec top = GET(at + j, LANES);
				veci where = {};
				_Pragma("GCC unroll 7") for (int t = 1; t < cells; t++) {
					vec v = GET(at + step[t] + j, LANES);
					veci wins = pool_wins(v, top);
					top = pick(wins, v, top), where = (wins & t) | (~wins & where);
				}
				PUT(y + j, top, LANES, 0);
				bytes b = __builtin_convertvector(where, bytes);
				memcpy(index + j, &b, LANES);
			}
	}
}

// max_pool takes the maxima of output pixels first..end.
static void NAME(max_pool)(const struct pool *p, dim first, dim end, const REAL *x, REAL *y, uint8_t *index) {
	switch (pool_cells(p)) {
	case 4: NAME(max_pool_cells)(p, first, end, x, y, index, 4); return;
	case 8: NAME(max_pool_cells)(p, first, end, x, y, index, 8); return;
	}
	y += first * p->c, index += first * p->c;
	for (dim o = first; o < end; o++, y += p->c, index += p->c) {
		dim h0 = o / p->ow % p->oh * p->stride - p->pad, w0 = o % p->ow * p->stride - p->pad;
		const REAL *clip = x + pool_frame(p, o) * p->h * p->w * p->c;
		for (dim j = 0; j < p->c; j += LANES) {
			dim n = min_dim(p->c - j, LANES);
			vec top = {};
			veci where = {};
			int empty = 1;
			for (dim q = 0; q < p->deep; q++)
				for (dim r = 0; r < p->size; r++)
					for (dim s = 0; s < p->size; s++) {
						dim h = h0 + r, w = w0 + s;
						if (h < 0 || h >= p->h || w < 0 || w >= p->w) continue;
						vec v = GET(clip + ((q * p->h + h) * p->w + w) * p->c + j, n);
						veci t = (veci){} + (int32_t)((q * p->size + r) * p->size + s), wins = pool_wins(v, top);
						if (empty) top = v, where = t, empty = 0;
						else top = pick(wins, v, top), where = (t & wins) | (where & ~wins);
					}
			PUT(y + j, top, n, 0);
			bytes b = __builtin_convertvector(where, bytes);
			memcpy(index + j, &b, n);
		}
	}
}

// max_pool_cells_back writes every element of dx once.
static inline __attribute__((always_inline)) void NAME(max_pool_cells_back)(const struct pool *p, dim first, dim end, const REAL *dy,
                                                                      const uint8_t *index, REAL *dx, const int cells) {
	dim step[8];
	for (int t = 0; t < cells; t++) step[t] = ((t / 4 * p->h + t / 2 % 2) * p->w + t % 2) * p->c;
	dy += first * p->c, index += first * p->c;
	for (dim o = first; o < end; o += p->ow) {
		REAL *at = dx + (pool_frame(p, o) * p->h + o / p->ow % p->oh * 2) * p->w * p->c;
		for (dim i = 0; i < p->ow; i++, at += 2 * p->c, dy += p->c, index += p->c)
			for (dim j = 0; j < p->c; j += LANES) {
				vec g = GET(dy + j, LANES);
				bytes b;
				memcpy(&b, index + j, LANES);
				veci where = __builtin_convertvector(b, veci);
				_Pragma("GCC unroll 8") for (int t = 0; t < cells; t++) PUT(at + step[t] + j, pick(where == t, g, (vec){}), LANES, 0);
			}
	}
}

// max_pool_back writes dx of images, or clips, first..end.
static void NAME(max_pool_back)(const struct pool *p, dim first, dim end, const REAL *dy, const uint8_t *index, REAL *dx) {
	dim in = p->t * p->h * p->w * p->c, pixels = p->ot * p->oh * p->ow;
	switch (pool_covers(p) ? pool_cells(p) : 0) {
	case 4: NAME(max_pool_cells_back)(p, first * pixels, end * pixels, dy, index, dx, 4); return;
	case 8: NAME(max_pool_cells_back)(p, first * pixels, end * pixels, dy, index, dx, 8); return;
	}
	memset(dx + first * in, 0, (end - first) * in * sizeof(REAL));
	for (dim o = first * pixels; o < end * pixels; o++) {
		dim h0 = o / p->ow % p->oh * p->stride - p->pad, w0 = o % p->ow * p->stride - p->pad;
		REAL *clip = dx + pool_frame(p, o) * p->h * p->w * p->c;
		for (dim j = 0; j < p->c; j += LANES) {
			dim n = min_dim(p->c - j, LANES);
			vec g = GET(dy + o * p->c + j, n);
			bytes b = {};
			memcpy(&b, index + o * p->c + j, n);
			veci where = __builtin_convertvector(b, veci);
			for (dim q = 0; q < p->deep; q++)
				for (dim r = 0; r < p->size; r++)
					for (dim s = 0; s < p->size; s++) {
						dim h = h0 + r, w = w0 + s;
						if (h < 0 || h >= p->h || w < 0 || w >= p->w) continue;
						REAL *to = clip + ((q * p->h + h) * p->w + w) * p->c + j;
						vec v = pick(where == (int32_t)((q * p->size + r) * p->size + s), g, (vec){});
						PUT(to, v + GET(to, n), n, 0);
					}
		}
	}
}

// spread_mean writes dy[c] * factor to each of rows rows.
static void NAME(spread_mean)(dim rows, dim c, float factor, const REAL *dy, REAL *dx) {
	for (dim r = 0; r < rows; r++, dx += c)
		for (dim j = 0; j < c; j += LANES) {
			dim n = min_dim(c - j, LANES);
			PUT(dx + j, GET(dy + j, n) * factor, n, 0);
		}
}

// stack_frames_back writes frames first..end of dx.
static void NAME(stack_frames_back)(const struct frames *f, dim first, dim end, const REAL *dy, REAL *dx) {
	dim row = f->taps * f->c;
	for (dim i = first; i < end; i++) {
		dim t = i % f->t, k0 = 0, k1 = f->taps; // taps k of frame t + pad - k, those there are
		while (k0 < k1 && t + f->pad - k0 >= f->ot) k0++;
		while (k1 > k0 && t + f->pad - (k1 - 1) < 0) k1--;
		const REAL *a = dy + (i / f->t * f->ot + t + f->pad) * f->pixels * row;
		REAL *to = dx + i * f->pixels * f->c;
		for (dim p = 0; p < f->pixels; p++, a += row, to += f->c)
			for (dim j = 0; j < f->c; j += LANES) {
				dim n = min_dim(f->c - j, LANES);
				vec v = {};
				for (dim k = k0; k < k1; k++) v += GET(a - k * f->pixels * row + k * f->c + j, n);
				PUT(to + j, v, n, 0);
			}
	}
}
