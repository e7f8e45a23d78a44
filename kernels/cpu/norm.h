// Batch normalisation. Sums run over blocks of BLOCK rows in float and over the
// blocks in double, so that the error does not grow with the batch.

#define BLOCK 32

// Where it can, a pass takes WIDE vectors of a row at once, so that memory is
// read in long runs.
#define WIDE 4

static inline __attribute__((always_inline)) void add_columns_n(dim rows, dim c, const float *x, double *sum, const int wide, dim n) {
	for (dim r = 0; r < rows; r += BLOCK) {
		vec s[WIDE] = {};
		for (dim end = min_dim(r + BLOCK, rows), i = r; i < end; i++)
			for (int k = 0; k < wide; k++) s[k] += load_n(x + i * c + k * LANES, n);
		for (int k = 0; k < wide; k++)
			for (dim l = 0; l < n; l++) sum[k * LANES + l] += s[k][l];
	}
}

// add_columns adds to sum[c] the columns of x [rows,c].
static void add_columns(dim rows, dim c, const float *x, double *sum) {
	dim j = 0;
	for (; j + WIDE * LANES <= c; j += WIDE * LANES) add_columns_n(rows, c, x + j, sum + j, WIDE, LANES);
	for (; j < c; j += LANES) add_columns_n(rows, c, x + j, sum + j, 1, min_dim(c - j, LANES));
}

static inline __attribute__((always_inline)) void moments_n(dim rows, dim c, const float *x, double *mean, double *m2,
                                                            const int wide, dim n) {
	for (dim r = 0; r < rows; r += BLOCK, x += BLOCK * c) {
		dim count = min_dim(rows - r, BLOCK);
		double weight = (double)count / (r + count), cross = (double)r * weight;
		vec m[WIDE] = {}, rest[WIDE] = {}, q[WIDE] = {};
		for (dim i = 0; i < count; i++)
			for (int k = 0; k < wide; k++) m[k] += load_n(x + i * c + k * LANES, n);
		for (int k = 0; k < wide; k++) m[k] /= (float)count;
		for (dim i = 0; i < count; i++)
			for (int k = 0; k < wide; k++) {
				vec d = load_n(x + i * c + k * LANES, n) - m[k];
				q[k] += d * d, rest[k] += d;
			}
		for (int k = 0; k < wide; k++)
			for (dim l = 0; l < n; l++) {
				// m was rounded; the differences' own sum corrects it.
				dim j = k * LANES + l;
				double e = rest[k][l] / (double)count, d = m[k][l] + e - (r ? mean[j] : 0);
				double square = q[k][l] - count * e * e;
				mean[j] = (r ? mean[j] : 0) + d * weight;
				m2[j] = r ? m2[j] + square + d * d * cross : square;
			}
	}
}

// moments sets each column's mean and sum of squared differences from it. Each
// block takes two passes, in cache; blocks are joined as Chan, Golub and LeVeque
// ("Updating formulae and a pairwise algorithm", 1979) do.
static void moments(dim rows, dim c, const float *x, double *mean, double *m2) {
	dim j = 0;
	for (; j + WIDE * LANES <= c; j += WIDE * LANES) moments_n(rows, c, x + j, mean + j, m2 + j, WIDE, LANES);
	for (; j < c; j += LANES) moments_n(rows, c, x + j, mean + j, m2 + j, 1, min_dim(c - j, LANES));
}

// normalise computes y = (x - mean) scale + beta (+ residual) (then ReLU).
static void normalise(dim rows, dim c, const float *x, const float *mean, const float *scale,
                      const float *beta, const float *residual, float *y, dim flags) {
	for (dim r = 0; r < rows; r++, x += c, y += c) {
		for (dim j = 0; j < c; j += LANES) {
			dim n = min_dim(c - j, LANES);
			vec v = (load_n(x + j, n) - load_n(mean + j, n)) * load_n(scale + j, n) + load_n(beta + j, n);
			if (residual) v += load_n(residual + j, n);
			if (flags & RELU) v = relu(v);
			store_n(y + j, v, n);
		}
		if (residual) residual += c;
	}
}

static inline __attribute__((always_inline)) void norm_sums_n(dim rows, dim c, const float *dy, const float *x, const float *y,
                                                              const float *mean, double *sum, double *dot,
                                                              const int wide, dim n) {
	vec m[WIDE];
	for (int k = 0; k < wide; k++) m[k] = load_n(mean + k * LANES, n);
	for (dim r = 0; r < rows; r += BLOCK) {
		vec s[WIDE] = {}, d[WIDE] = {};
		for (dim end = min_dim(r + BLOCK, rows), i = r; i < end; i++)
			for (int k = 0; k < wide; k++) {
				dim at = i * c + k * LANES;
				vec g = load_n(dy + at, n);
				if (y) g = pick(load_n(y + at, n) > 0, g, (vec){});
				s[k] += g, d[k] += g * (load_n(x + at, n) - m[k]);
			}
		for (int k = 0; k < wide; k++)
			for (dim l = 0; l < n; l++) sum[k * LANES + l] += s[k][l], dot[k * LANES + l] += d[k][l];
	}
}

// norm_sums adds to sum the columns of g = dy where y > 0 (everywhere when y is
// null), and to dot those of g (x - mean).
static void norm_sums(dim rows, dim c, const float *dy, const float *x, const float *y, const float *mean,
                      double *sum, double *dot) {
	dim j = 0;
	for (; j + WIDE * LANES <= c; j += WIDE * LANES)
		norm_sums_n(rows, c, dy + j, x + j, y ? y + j : 0, mean + j, sum + j, dot + j, WIDE, LANES);
	for (; j < c; j += LANES)
		norm_sums_n(rows, c, dy + j, x + j, y ? y + j : 0, mean + j, sum + j, dot + j, 1, min_dim(c - j, LANES));
}

// norm_back computes dx = (g - offset - (x - mean) slope) scale and dres = g.
static void norm_back(dim rows, dim c, const float *dy, const float *x, const float *y, const float *mean,
                      const float *scale, const float *offset, const float *slope, float *dx, float *dres) {
	for (dim r = 0, at = 0; r < rows; r++)
		for (dim j = 0; j < c; j += LANES) {
			dim n = min_dim(c - j, LANES);
			vec g = load_n(dy + at, n);
			if (y) g = pick(load_n(y + at, n) > 0, g, (vec){});
			if (dres) store_n(dres + at, g, n);
			vec v = g - load_n(offset + j, n) - (load_n(x + at, n) - load_n(mean + j, n)) * load_n(slope + j, n);
			store_n(dx + at, v * load_n(scale + j, n), n);
			at += n;
		}
}
