// Winograd's minimal filtering F(4x4,3x3) (Lavin and Gray, "Fast Algorithms for
// Convolutional Neural Networks", 2015) with the points 0, 1, -1, 2, -2: 36
// multiplications for 16 outputs where the direct way takes 144.
//
//	Y = A^T [ (G g G^T) o (B^T d B) ] A
//
// The filter's gradient is the adjoint: dg = G^T [ sum over tiles of
// (A dy A^T) o (B^T d B) ] G. Channels lie along the vectors; every channel
// count is a multiple of 16. A transformed tile is 36 rows of channels, `step`
// floats apart, so that each of the 36 positions is one matrix product.

// Rows of zeros for positions outside an image.
#define MAXC 4096
static const float zeros[MAXC];

#define EACH_LANE(i) _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++)

#include "axes.h"

// place finds a tile's image and corner.
#define PLACE(t, i)                                                                                 \
	dim image = (i) / ((t)->th * (t)->tw), row = (i) / (t)->tw % (t)->th * 4, col = (i) % (t)->tw * 4

// wino_input_rows transforms 6x6 patches of x, one for each 4x4 patch of outputs, into rows
// from..to of positions.
static inline __attribute__((always_inline)) void wino_input_rows(const struct tiles *t, const float *x, float *v,
                                                                  const int from, const int to) {
	for (dim i = t->first; i < t->end; i++, v += t->c) {
		PLACE(t, i);
		const float *px[36];
		dim across[6]; // offset of a column, negative outside
		for (dim s = 0; s < 6; s++) {
			dim w = col + s - t->pad;
			across[s] = w >= 0 && w < t->w ? w * t->c : -1;
		}
		for (dim r = 0; r < 6; r++) {
			dim h = row + r - t->pad;
			int inside = h >= 0 && h < t->h;
			const float *line = x + (image * t->h + h) * t->w * t->c;
			EACH(s, 6) px[r * 6 + s] = inside && across[s] >= 0 ? line + across[s] : zeros;
		}
		for (dim c = 0; c < t->c; c += LANES) {
			vec mid[6][6];
			EACH(s, 6) {
				vec d[6], o[6];
				EACH(r, 6) d[r] = load(px[r * 6 + s] + c);
				mul_bt(d, o);
				EACH(r, 6) mid[r][s] = o[r];
			}
			float *out = v + c;
			EACH(r, 6) {
				if (r < from || r >= to) continue;
				vec o[6];
				mul_bt(mid[r], o);
				EACH(s, 6) { store(out, o[s]), out += t->step; }
			}
		}
	}
}

// wino_spread_rows transforms 4x4 patches of the output's gradient by A.
static inline __attribute__((always_inline)) void wino_spread_rows(const struct tiles *t, const float *dy, float *v,
                                                                   const int from, const int to) {
	for (dim i = t->first; i < t->end; i++, v += t->c) {
		PLACE(t, i);
		const float *px[16], *corner = dy + ((image * t->h + row) * t->w + col) * t->c;
		for (dim r = 0; r < 4; r++)
			EACH(s, 4) px[r * 4 + s] = row + r < t->h && col + s < t->w ? corner + (r * t->w + s) * t->c : zeros;
		for (dim c = 0; c < t->c; c += LANES) {
			vec mid[6][4];
			EACH(s, 4) {
				vec d[4], o[6];
				EACH(r, 4) d[r] = load(px[r * 4 + s] + c);
				mul_a(d, o);
				EACH(r, 6) mid[r][s] = o[r];
			}
			float *out = v + c;
			EACH(r, 6) {
				if (r < from || r >= to) continue;
				vec o[6];
				mul_a(mid[r], o);
				EACH(s, 6) { store(out, o[s]), out += t->step; }
			}
		}
	}
}

// HALVES defines a kernel that writes all rows of positions, or one half of them.
#define HALVES(NAME)                                                                                \
	static void NAME(const struct tiles *t, const float *x, float *v) {                            \
		switch (t->half) {                                                                          \
		case 0: NAME##_rows(t, x, v, 0, 6); return;                                                 \
		case 1: NAME##_rows(t, x, v, 0, 3); return;                                                 \
		case 2: NAME##_rows(t, x, v, 3, 6); return;                                                 \
		}                                                                                           \
	}
HALVES(wino_input)
HALVES(wino_spread)
#undef HALVES

// wino_output turns products into 4x4 patches of y.
static void wino_output(const struct tiles *t, const float *m, float *y, const float *bias, dim flags) {
	for (dim i = t->first; i < t->end; i++, m += t->c) {
		PLACE(t, i);
		dim rows = min_dim(4, t->h - row), cols = min_dim(4, t->w - col);
		float *corner = y + ((image * t->h + row) * t->w + col) * t->c;
		for (dim c = 0; c < t->c; c += LANES) {
			vec mid[4][6];
			const float *in = m + c;
			EACH(s, 6) {
				vec d[6], o[4];
				EACH(r, 6) d[r] = load(in + (r * 6 + s) * t->step);
				mul_at(d, o);
				EACH(r, 4) mid[r][s] = o[r];
			}
			vec b = bias ? load(bias + c) : (vec){};
			for (dim r = 0; r < rows; r++) {
				vec o[4];
				mul_at(mid[r], o);
				float *out = corner + r * t->w * t->c + c;
				for (dim s = 0; s < cols; s++, out += t->c) {
					vec z = o[s] + b;
					if (flags & ACCUMULATE) z += load(out);
					if (flags & RELU) z = relu(z);
					store(out, z);
				}
			}
		}
	}
}

typedef void axis(const vec *, vec *); // a transform along one axis

static inline __attribute__((always_inline)) void filter_tile(vec g[9], float *u, dim step, axis *mul, dim flags) {
	vec mid[6][3];
	EACH(s, 3) {
		vec d[3] = {g[s], g[3 + s], g[6 + s]}, o[6];
		mul(d, o);
		EACH(r, 6) mid[r][s] = o[r];
	}
	EACH(r, 6) {
		vec o[6];
		mul(mid[r], o);
		EACH(s, 6) {
			if (flags & STREAM) stream(u, o[s]);
			else store(u, o[s]);
			u += step;
		}
	}
}

// filters transforms w [k][9][c] into 36 matrices [c][k] packed for gemm_nn, for
// panels first..end of k.
static inline __attribute__((always_inline)) void filters(dim k, dim c, dim step, dim first, dim end, const float *w,
                                                          float *u, axis *mul, dim flags) {
	if (!aligned(u, step)) flags &= ~STREAM;
	for (dim j = first; j < end; j++)
		for (dim c0 = 0; c0 < c; c0 += LANES) {
			float turned[9][LANES][PANEL];
			for (dim q = 0; q < 9; q++)
				for (dim half = 0; half < PANEL; half += LANES) {
					vec v[LANES];
					EACH_LANE(i) {
						dim row = j * PANEL + half + i;
						v[i] = load(row < k ? w + (row * 9 + q) * c + c0 : zeros);
					}
					turn(v);
					EACH_LANE(l) store(&turned[q][l][half], v[l]);
				}
			for (dim l = 0; l < LANES; l++)
				for (dim half = 0; half < PANEL; half += LANES) {
					vec g[9];
					for (int q = 0; q < 9; q++) g[q] = load(&turned[q][l][half]);
					filter_tile(g, u + (j * c + c0 + l) * PANEL + half, step, mul, flags);
				}
		}
}

// filters_back does the same for the gradient of the input, a convolution of dy with the filter turned
// by 180 degrees. It writes 36 matrices [k][c] in panels of c.
static inline __attribute__((always_inline)) void filters_back(dim k, dim c, dim step, dim first, dim end, const float *w,
                                                               float *u, axis *mul, dim flags) {
	if (!aligned(u, step)) flags &= ~STREAM;
	for (dim j = first; j < end; j++)
		for (dim row = 0; row < k; row++)
			for (dim half = 0; half < PANEL; half += LANES) {
				dim col = j * PANEL + half;
				vec g[9];
				for (int q = 0; q < 9; q++) g[8 - q] = load(col < c ? w + (row * 9 + q) * c + col : zeros);
				filter_tile(g, u + (j * k + row) * PANEL + half, step, mul, flags);
			}
}

// gradients turns rows first..end of the 36 matrices u [k][c] into dw [k][9][c].
static inline __attribute__((always_inline)) void gradients(dim c, dim step, dim first, dim end, const float *u, float *dw,
                                                            axis *mul) {
	for (dim row = first; row < end; row++)
		for (dim c0 = 0; c0 < c; c0 += LANES) {
			vec mid[3][6];
			const float *in = u + row * c + c0;
			EACH(s, 6) {
				vec d[6], o[3];
				EACH(r, 6) d[r] = load(in + (r * 6 + s) * step);
				mul(d, o);
				EACH(r, 3) mid[r][s] = o[r];
			}
			float *out = dw + row * 9 * c + c0;
			EACH(r, 3) {
				vec o[3];
				mul(mid[r], o);
				EACH(s, 3) { store(out, o[s]), out += c; }
			}
		}
}

#define FILTERS(PREFIX, G, GT)                                                                      \
	static void PREFIX##_filter(dim k, dim c, dim step, dim first, dim end, const float *w, float *u, dim flags) { \
		filters(k, c, step, first, end, w, u, G, flags);                                            \
		if (flags & STREAM) stream_end();                                                           \
	}                                                                                               \
	static void PREFIX##_filter_back(dim k, dim c, dim step, dim first, dim end, const float *w, float *u, dim flags) { \
		filters_back(k, c, step, first, end, w, u, G, flags);                                       \
		if (flags & STREAM) stream_end();                                                           \
	}                                                                                               \
	static void PREFIX##_gather(dim c, dim step, dim first, dim end, const float *u, float *dw) {   \
		gradients(c, step, first, end, u, dw, GT);                                                  \
	}
FILTERS(wino, mul_g, mul_gt)
