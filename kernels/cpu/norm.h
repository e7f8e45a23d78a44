// Batch normalisation. Sums run over blocks of BLOCK rows in float and over the
// blocks in double, so that the error does not grow with the batch.

#define BLOCK 32

// add_columns adds to sum[c] the columns of x [rows,c].
static void add_columns(dim rows, dim c, const float *x, double *sum) {
	for (dim r = 0; r < rows; r += BLOCK, x += BLOCK * c)
		for (dim j = 0; j < c; j += LANES) {
			dim n = min_dim(c - j, LANES);
			vec s = {};
			for (dim i = 0; i < min_dim(rows - r, BLOCK); i++) s += load_n(x + i * c + j, n);
			for (dim l = 0; l < n; l++) sum[j + l] += s[l];
		}
}

// moments sets each column's mean and sum of squared differences from it. Each
// block takes two passes, in cache; blocks are joined as Chan, Golub and LeVeque
// ("Updating formulae and a pairwise algorithm", 1979) do.
static void moments(dim rows, dim c, const float *x, double *mean, double *m2) {
	for (dim r = 0; r < rows; r += BLOCK, x += BLOCK * c) {
		dim count = min_dim(rows - r, BLOCK);
		double weight = (double)count / (r + count), cross = (double)r * weight;
		for (dim j = 0; j < c; j += LANES) {
			dim n = min_dim(c - j, LANES);
			const float *p = x + j;
			vec s = {}, q = {};
			for (dim i = 0; i < count; i++) s += load_n(p + i * c, n);
			vec m = s / (float)count, rest = {};
			for (dim i = 0; i < count; i++) {
				vec d = load_n(p + i * c, n) - m;
				q += d * d, rest += d;
			}
			for (dim l = 0; l < n; l++) {
				// m was rounded; the differences' own sum corrects it.
				double e = rest[l] / (double)count, exact = m[l] + e;
				double d = exact - (r ? mean[j + l] : 0), square = q[l] - count * e * e;
				mean[j + l] = (r ? mean[j + l] : 0) + d * weight;
				m2[j + l] = r ? m2[j + l] + square + d * d * cross : square;
			}
		}
	}
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

// norm_sums adds to sum the columns of g = dy where y > 0 (everywhere when y is
// null), and to dot those of g (x - mean).
static void norm_sums(dim rows, dim c, const float *dy, const float *x, const float *y, const float *mean,
                      double *sum, double *dot) {
	for (dim r = 0; r < rows; r += BLOCK) {
		dim count = min_dim(rows - r, BLOCK);
		for (dim j = 0; j < c; j += LANES) {
			dim n = min_dim(c - j, LANES), at = r * c + j;
			vec s = {}, d = {}, m = load_n(mean + j, n);
			for (dim i = 0; i < count; i++, at += c) {
				vec g = load_n(dy + at, n);
				if (y) g = pick(load_n(y + at, n) > 0, g, (vec){});
				s += g, d += g * (load_n(x + at, n) - m);
			}
			for (dim l = 0; l < n; l++) sum[j + l] += s[l], dot[j + l] += d[l];
		}
	}
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
