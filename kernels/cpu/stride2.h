// Minimal filtering for 3x3 convolutions with stride 2 and padding 1. Along one
// axis, with the patch d = x[8t-1 .. 8t+7] of a tile of four outputs,
//
//	y[i] = (w0 d[2i] + w2 d[2i+2]) + w1 d[2i+1]
//
// is a filter of two taps on the even samples, F(4,2) with the points 0, 1, -1, 2,
// and a product with the odd ones: 5 + 4 multiplications for 12. In two
// dimensions 81 do the work of 144. The last four positions of an axis share the
// filter w1, so 36 transformed filters serve the 81 positions.

static inline __attribute__((always_inline)) void mul_bt5(const vec *e, vec *o) { // B^T e
	vec a = e[3] - e[1];
	o[0] = 2 * (e[0] - e[2]) + a;
	o[1] = e[3] - 2 * e[1] - e[2];
	o[2] = e[3] + 2 * e[1] - 3 * e[2];
	o[3] = a;
	o[4] = e[4] - e[2] - 2 * a;
}

static inline __attribute__((always_inline)) void mul_at5(const vec *m, vec *o) { // A^T m
	vec a = m[1] + m[2], b = m[1] - m[2];
	o[0] = m[0] + a + m[3], o[1] = b + 2 * m[3], o[2] = a + 4 * m[3], o[3] = b + 8 * m[3] + m[4];
}

static inline __attribute__((always_inline)) void two_in(const vec *d, vec *o) { // 9 of x to 9
	vec e[5] = {d[0], d[2], d[4], d[6], d[8]};
	mul_bt5(e, o);
	EACH(i, 4) o[5 + i] = d[2 * i + 1];
}

static inline __attribute__((always_inline)) void two_out(const vec *m, vec *o) { // 9 to 4 of y
	mul_at5(m, o);
	EACH(i, 4) o[i] += m[5 + i];
}

static inline __attribute__((always_inline)) void two_back_in(const vec *e, vec *o) { // 5 of dy to 9
	mul_bt5(e, o);
	EACH(i, 4) o[5 + i] = e[i];
}

static inline __attribute__((always_inline)) void two_back_out(const vec *m, vec *o) { // 9 to 8 of dx
	vec odd[4];
	mul_at5(m, odd);
	EACH(i, 4) o[2 * i] = m[5 + i], o[2 * i + 1] = odd[i];
}

static inline __attribute__((always_inline)) void two_spread(const vec *y, vec *o) { // 4 of dy to 9, by A
	vec a = y[0] + y[2], b = y[1] + y[3], c = y[0] + 4 * y[2], d = 2 * y[1] + 8 * y[3];
	o[0] = y[0], o[1] = a + b, o[2] = a - b, o[3] = c + d, o[4] = y[3];
	EACH(i, 4) o[5 + i] = y[i];
}

static inline __attribute__((always_inline)) void two_mul_g(const vec *g, vec *o) { // 3 taps to 6
	o[0] = g[0] * 0.5f, o[1] = (g[0] + g[2]) * -0.5f, o[2] = (g[2] - g[0]) * (1.0f / 6);
	o[3] = (g[0] + 2 * g[2]) * (1.0f / 6), o[4] = g[2], o[5] = g[1];
}

static inline __attribute__((always_inline)) void two_mul_gt(const vec *u, vec *o) { // 6 to 3 taps
	o[0] = (u[0] - u[1]) * 0.5f + (u[3] - u[2]) * (1.0f / 6);
	o[1] = u[5];
	o[2] = u[2] * (1.0f / 6) - u[1] * 0.5f + u[3] * (1.0f / 3) + u[4];
}

// PATCHES defines a kernel that transforms SIDE x SIDE patches of a tensor, at
// h = tile * STRIDE - pad, into 81 rows of channels.
#define PATCHES(NAME, SIDE, STRIDE, MUL)                                                              \
	static void NAME(const struct tiles *t, const float *x, float *v) {                                \
		for (dim i = t->first; i < t->end; i++, v += t->c) {                                          \
			PLACE(t, i);                                                                              \
			const float *px[SIDE * SIDE];                                                             \
			dim across[SIDE];                                                                         \
			for (dim s = 0; s < SIDE; s++) {                                                          \
				dim w = col / 4 * STRIDE + s - t->pad;                                                \
				across[s] = w >= 0 && w < t->w ? w * t->c : -1;                                       \
			}                                                                                         \
			for (dim r = 0; r < SIDE; r++) {                                                          \
				dim h = row / 4 * STRIDE + r - t->pad;                                                \
				int inside = h >= 0 && h < t->h;                                                      \
				const float *line = x + (image * t->h + h) * t->w * t->c;                             \
				for (dim s = 0; s < SIDE; s++)                                                        \
					px[r * SIDE + s] = inside && across[s] >= 0 ? line + across[s] : zeros;           \
			}                                                                                         \
			for (dim c = 0; c < t->c; c += LANES) {                                                   \
				vec mid[9][SIDE];                                                                     \
				for (int s = 0; s < SIDE; s++) {                                                      \
					vec d[SIDE], o[9];                                                                \
					_Pragma("GCC unroll 9") for (int r = 0; r < SIDE; r++) d[r] = load(px[r * SIDE + s] + c); \
					MUL(d, o);                                                                        \
					_Pragma("GCC unroll 9") for (int r = 0; r < 9; r++) mid[r][s] = o[r];             \
				}                                                                                     \
				float *out = v + c;                                                                   \
				for (int r = 0; r < 9; r++) {                                                         \
					vec o[9];                                                                         \
					MUL(mid[r], o);                                                                   \
					_Pragma("GCC unroll 9") for (int s = 0; s < 9; s++, out += t->step) store(out, o[s]); \
				}                                                                                     \
			}                                                                                         \
		}                                                                                             \
	}
PATCHES(two_input, 9, 8, two_in)
PATCHES(two_input_back, 5, 4, two_back_in)
PATCHES(two_spread_dy, 4, 4, two_spread)
#undef PATCHES

// RESULTS defines a kernel that turns 81 rows into SIDE x SIDE patches.
#define RESULTS(NAME, SIDE, MUL)                                                                      \
	static void NAME(const struct tiles *t, const float *m, float *y, const float *bias, dim flags) {  \
		for (dim i = t->first; i < t->end; i++, m += t->c) {                                          \
			PLACE(t, i);                                                                              \
			row = row / 4 * SIDE, col = col / 4 * SIDE;                                               \
			dim rows = min_dim(SIDE, t->h - row), cols = min_dim(SIDE, t->w - col);                   \
			float *corner = y + ((image * t->h + row) * t->w + col) * t->c;                           \
			for (dim c = 0; c < t->c; c += LANES) {                                                   \
				vec mid[SIDE][9];                                                                     \
				const float *in = m + c;                                                              \
				for (int s = 0; s < 9; s++) {                                                         \
					vec d[9], o[SIDE];                                                                \
					_Pragma("GCC unroll 9") for (int r = 0; r < 9; r++) d[r] = load(in + (r * 9 + s) * t->step); \
					MUL(d, o);                                                                        \
					_Pragma("GCC unroll 9") for (int r = 0; r < SIDE; r++) mid[r][s] = o[r];          \
				}                                                                                     \
				vec b = bias ? load(bias + c) : (vec){};                                              \
				for (dim r = 0; r < rows; r++) {                                                      \
					vec o[SIDE];                                                                      \
					MUL(mid[r], o);                                                                   \
					float *out = corner + r * t->w * t->c + c;                                        \
					for (dim s = 0; s < cols; s++, out += t->c) {                                     \
						vec z = o[s] + b;                                                             \
						if (flags & ACCUMULATE) z += load(out);                                       \
						if (flags & RELU) z = relu(z);                                                \
						store(out, z);                                                                \
					}                                                                                 \
				}                                                                                     \
			}                                                                                         \
		}                                                                                             \
	}
RESULTS(two_output, 4, two_out)
RESULTS(two_output_back, 8, two_back_out)
#undef RESULTS

FILTERS(two, two_mul_g, two_mul_gt)
