// Convolutions of few channels. A row of a window is a few contiguous floats, and the window of the next
// pixel begins stride*c floats further on. So padded rows of the image are the operands of the products,
// without gathering.

// micro_window: c[rows, PANEL] from `taps` rows of windows, step floats apart, each of k floats.
typedef void micro_window(dim taps, dim step, dim k, const float *a, dim lda, const float *b, float *c, dim ldc,
                          const float *bias, dim flags);

#define MICRO(R)                                                                                                   \
	static void window_##R(dim taps, dim step, dim k, const float *a, dim lda, const float *b, float *c, dim ldc,      \
	                       const float *bias, dim flags) {                                                         \
		vec acc[R][2];                                                                                             \
		vec s0 = {}, s1 = {};                                                                                      \
		if (bias) s0 = load(bias), s1 = load(bias + LANES);                                                        \
		_Pragma("GCC unroll 16") for (int i = 0; i < R; i++) acc[i][0] = s0, acc[i][1] = s1;                       \
		for (dim t = 0; t < taps; t++, a += step)                                                                  \
			for (dim p = 0; p < k; p++, b += PANEL) {                                                              \
				vec b0 = load(b), b1 = load(b + LANES);                                                            \
				_Pragma("GCC unroll 16") for (int i = 0; i < R; i++) {                                             \
					vec x = all(a[i * lda + p]);                                                                   \
					acc[i][0] += x * b0, acc[i][1] += x * b1;                                                      \
				}                                                                                                  \
			}                                                                                                      \
		_Pragma("GCC unroll 16") for (int i = 0; i < R; i++, c += ldc) {                                           \
			if (flags & RELU) acc[i][0] = relu(acc[i][0]), acc[i][1] = relu(acc[i][1]);                            \
			store(c, acc[i][0]), store(c + LANES, acc[i][1]);                                                      \
		}                                                                                                          \
	}
EACH_ROWS(MICRO)
#undef MICRO
static micro_window *const window_rows[] = TABLE(window_);

// pad_rows copies rows of an image, from a row on that may lie outside of it, with g's padding.
static void pad_rows(const struct window *g, const float *image, dim from, dim rows, float *out) {
	dim row = g->w * g->c, pad = g->pad * g->c, all = row + 2 * pad;
	for (dim h = from; h < from + rows; h++, out += all) {
		if (h < 0 || h >= g->h) {
			memset(out, 0, all * sizeof(float));
			continue;
		}
		memset(out, 0, pad * sizeof(float));
		memcpy(out + pad, image + h * row, row * sizeof(float));
		memset(out + pad + row, 0, pad * sizeof(float));
	}
}

// narrow_rows pads what output rows first..end read. Rows are counted over all images; these are of one
// image.
static void narrow_rows(const struct window *g, dim first, dim end, const float *x, float *scratch) {
	pad_rows(g, x + first / g->oh * g->h * g->w * g->c, first % g->oh * g->stride - g->pad, (end - first - 1) * g->stride + g->r, scratch);
}

// narrow_forward computes these rows of y [.., ow, k], k whole panels.
static void narrow_forward(const struct window *g, dim k, dim first, dim end, const float *x, const float *packed,
                           const float *bias, float *y, dim flags, float *scratch) {
	dim ld = (g->w + 2 * g->pad) * g->c, step = g->stride * g->c, run = g->s * g->c, blocks = (g->ow + ROWS - 1) / ROWS;
	narrow_rows(g, first, end, x, scratch);
	for (dim o = first; o < end; o++, scratch += g->stride * ld)
		for (dim i = 0; i < blocks; i++) {
			dim lo = g->ow * i / blocks, rows = g->ow * (i + 1) / blocks - lo;
			for (dim j = 0; j < k; j += PANEL)
				window_rows[rows](g->r, ld, run, scratch + lo * step, step, packed + j * g->r * run, y + (o * g->ow + lo) * k + j, k,
				                  bias ? bias + j : 0, flags);
		}
}

// narrow_weight sets sum [r*s*c, k] to the contribution of these rows of dy, or adds it.
static void narrow_weight(const struct window *g, dim k, dim first, dim end, const float *x, const float *dy, float *sum, dim flags,
                          float *scratch) {
	dim ld = (g->w + 2 * g->pad) * g->c, run = g->s * g->c;
	narrow_rows(g, first, end, x, scratch);
	for (dim o = first; o < end; o++, scratch += g->stride * ld, flags |= ACCUMULATE)
		for (dim r = 0; r < g->r; r++)
			gemm_tn(run, k, g->ow, scratch + r * ld, g->stride * g->c, dy + o * g->ow * k, k, sum + r * run * k, k, flags);
}
