// Batch normalisation of tensors of REAL. GET and PUT read and write them; NAME gives the functions
// their names. Sums are in float within blocks of BLOCK rows and in double over blocks, so that the
// error does not grow with the batch. While a pass reads one block it fetches the next, because
// processors do not foresee runs of WIDE vectors that are a row apart. PUT may write results past the
// caches that are too large for them.

#ifndef BLOCK
#define BLOCK 32

// Where it can, a pass takes WIDE vectors of a row at once, so that memory is
// read in long runs.
#define WIDE 4
#endif

static inline __attribute__((always_inline)) void NAME(add_columns_n)(dim rows, dim c, const REAL *x, double *sum, const int wide, dim n) {
	for (dim r = 0; r < rows; r += BLOCK) {
		vec s[WIDE] = {};
		for (dim end = min_dim(r + BLOCK, rows), i = r; i < end; i++)
			for (int k = 0; k < wide; k++) s[k] += GET(x + i * c + k * LANES, n);
		for (int k = 0; k < wide; k++)
			for (dim l = 0; l < n; l++) sum[k * LANES + l] += s[k][l];
	}
}

// add_columns adds to sum[c] the columns of x [rows,c].
static void NAME(add_columns)(dim rows, dim c, const REAL *x, double *sum) {
	dim j = 0;
	for (; j + WIDE * LANES <= c; j += WIDE * LANES) NAME(add_columns_n)(rows, c, x + j, sum + j, WIDE, LANES);
	for (; j < c; j += LANES) NAME(add_columns_n)(rows, c, x + j, sum + j, 1, min_dim(c - j, LANES));
}

static inline __attribute__((always_inline)) void NAME(fetch)(const REAL *p, const int wide) {
	for (dim k = 0; k < wide * LANES; k += 64 / sizeof(REAL)) __builtin_prefetch(p + k, 0, 2);
}

// moments_n joins `count` rows to the columns' moments. r rows came before.
static inline __attribute__((always_inline)) void NAME(moments_n)(dim r, dim count, dim c, const REAL *x, double *mean, double *m2,
                                                            const int wide, dim n) {
	double weight = (double)count / (r + count), cross = (double)r * weight;
	vec m[WIDE] = {}, rest[WIDE] = {}, q[WIDE] = {};
	for (dim i = 0; i < count; i++) {
		NAME(fetch)(x + (i + BLOCK) * c, wide);
		for (int k = 0; k < wide; k++) m[k] += GET(x + i * c + k * LANES, n);
	}
	for (int k = 0; k < wide; k++) m[k] /= (float)count;
	for (dim i = 0; i < count; i++)
		for (int k = 0; k < wide; k++) {
			vec d = GET(x + i * c + k * LANES, n) - m[k];
			q[k] += d * d, rest[k] += d;
		}
	for (int k = 0; k < wide; k++)
		for (dim l = 0; l < n; l++) {
			// m was rounded; the sum of the differences corrects that.
			dim j = k * LANES + l;
			double e = rest[k][l] / (double)count, d = m[k][l] + e - (r ? mean[j] : 0);
			double square = q[k][l] - count * e * e;
			mean[j] = (r ? mean[j] : 0) + d * weight;
			m2[j] = r ? m2[j] + square + d * d * cross : square;
		}
}

// moments sets each column's mean and sum of squared differences from it. Each
// block takes two passes, in cache; blocks are joined as Chan, Golub and LeVeque
// ("Updating formulae and a pairwise algorithm", 1979) do.
static void NAME(moments)(dim rows, dim c, const REAL *x, double *mean, double *m2) {
	for (dim r = 0; r < rows; r += BLOCK, x += BLOCK * c) {
		dim j = 0, count = min_dim(rows - r, BLOCK);
		for (; j + WIDE * LANES <= c; j += WIDE * LANES) NAME(moments_n)(r, count, c, x + j, mean + j, m2 + j, WIDE, LANES);
		for (; j < c; j += LANES) NAME(moments_n)(r, count, c, x + j, mean + j, m2 + j, 1, min_dim(c - j, LANES));
	}
}

// normalise computes y = (x - mean) scale + beta (+ residual) (then ReLU).
static void NAME(normalise)(dim rows, dim c, const REAL *x, const float *mean, const float *scale,
                      const float *beta, const REAL *residual, REAL *y, dim flags) {
	dim past = flags & STREAM && aligned(y, c);
	for (dim r = 0; r < rows; r++, x += c, y += c) {
		for (dim j = 0; j < c; j += LANES) {
			dim n = min_dim(c - j, LANES);
			vec v = (GET(x + j, n) - load_n(mean + j, n)) * load_n(scale + j, n) + load_n(beta + j, n);
			if (residual) v += GET(residual + j, n);
			if (flags & RELU) v = relu(v);
			PUT(y + j, v, n, past);
		}
		if (residual) residual += c;
	}
	if (past) stream_end();
}

static inline __attribute__((always_inline)) void NAME(norm_sums_n)(dim count, dim c, const REAL *dy, const REAL *x, const REAL *y,
                                                              const float *mean, double *sum, double *dot, uint16_t *bits,
                                                              const int wide, dim n) {
	vec m[WIDE], s[WIDE] = {}, d[WIDE] = {};
	for (int k = 0; k < wide; k++) m[k] = load_n(mean + k * LANES, n);
	for (dim i = 0; i < count; i++) {
		dim next = (i + BLOCK) * c;
		NAME(fetch)(dy + next, wide), NAME(fetch)(x + next, wide);
		if (y) NAME(fetch)(y + next, wide);
		for (int k = 0; k < wide; k++) {
			dim at = i * c + k * LANES;
			vec g = GET(dy + at, n);
			if (y) bits[k] = positive(GET(y + at, n)), g = keep(bits[k], g);
			s[k] += g, d[k] += g * (GET(x + at, n) - m[k]);
		}
		bits += (c + LANES - 1) / LANES;
	}
	for (int k = 0; k < wide; k++)
		for (dim l = 0; l < n; l++) sum[k * LANES + l] += s[k][l], dot[k * LANES + l] += d[k][l];
}

// norm_sums adds to sum the columns of g = dy where y > 0 (everywhere when y is
// null), and to dot those of g (x - mean). It stores in bits where y > 0, a word for each vector of a
// row, so that norm_back need not read y again.
static void NAME(norm_sums)(dim rows, dim c, const REAL *dy, const REAL *x, const REAL *y, const float *mean,
                      double *sum, double *dot, uint16_t *bits) {
	for (dim r = 0; r < rows; r += BLOCK) {
		dim j = 0, at = r * c, count = min_dim(rows - r, BLOCK);
		uint16_t *to = bits + r * ((c + LANES - 1) / LANES);
		for (; j + WIDE * LANES <= c; j += WIDE * LANES, at += WIDE * LANES, to += WIDE)
			NAME(norm_sums_n)(count, c, dy + at, x + at, y ? y + at : 0, mean + j, sum + j, dot + j, to, WIDE, LANES);
		for (; j < c; j += LANES, at += LANES, to++)
			NAME(norm_sums_n)(count, c, dy + at, x + at, y ? y + at : 0, mean + j, sum + j, dot + j, to, 1, min_dim(c - j, LANES));
	}
}

// norm_back computes dx = (g - offset - (x - mean) slope) scale and dres = g. bits are those of
// norm_sums, or null for all of dy.
static void NAME(norm_back)(dim rows, dim c, const REAL *dy, const REAL *x, const uint16_t *bits, const float *mean,
                      const float *scale, const float *offset, const float *slope, REAL *dx, REAL *dres, dim flags) {
	dim past = flags & STREAM && aligned(dx, c) && (!dres || aligned(dres, c));
	for (dim r = 0, at = 0; r < rows; r++)
		for (dim j = 0; j < c; j += LANES) {
			dim n = min_dim(c - j, LANES);
			vec g = GET(dy + at, n);
			if (bits) g = keep(*bits++, g);
			if (dres) PUT(dres + at, g, n, past);
			vec v = g - load_n(offset + j, n) - (GET(x + at, n) - load_n(mean + j, n)) * load_n(slope + j, n);
			PUT(dx + at, v * load_n(scale + j, n), n, past);
			at += n;
		}
	if (past) stream_end();
}
