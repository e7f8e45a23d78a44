// Operations element by element, and pools.

static void add(dim n, const float *a, const float *b, float *y) {
	for (dim i = 0; i < n; i += LANES) {
		dim k = min_dim(n - i, LANES);
		store_n(y + i, load_n(a + i, k) + load_n(b + i, k), k);
	}
}

static void relu_back(dim n, const float *dy, const float *y, float *dx) {
	for (dim i = 0; i < n; i += LANES) {
		dim k = min_dim(n - i, LANES);
		store_n(dx + i, pick(load_n(y + i, k) > 0, load_n(dy + i, k), (vec){}), k);
	}
}

// sgd computes m = mu m + (grad unscale + decay w), w -= lr m.
static void sgd(dim n, float *w, const float *grad, float *m, float lr, float mu, float decay, float unscale) {
	for (dim i = 0; i < n; i += LANES) {
		dim k = min_dim(n - i, LANES);
		vec x = load_n(w + i, k), v = mu * load_n(m + i, k) + (load_n(grad + i, k) * unscale + decay * x);
		store_n(m + i, v, k);
		store_n(w + i, x - lr * v, k);
	}
}

typedef uint8_t bytes __attribute__((vector_size(LANES)));

// max_pool takes the maxima of output pixels first..end. The first of equal
// maxima wins, and a NaN wins over numbers.
static void max_pool(const struct pool *p, dim first, dim end, const float *x, float *y, uint8_t *index) {
	y += first * p->c, index += first * p->c;
	for (dim o = first; o < end; o++, y += p->c, index += p->c) {
		dim h0 = o / p->ow % p->oh * p->stride - p->pad, w0 = o % p->ow * p->stride - p->pad;
		dim image = o / (p->oh * p->ow);
		for (dim j = 0; j < p->c; j += LANES) {
			dim n = min_dim(p->c - j, LANES);
			vec top = {};
			veci where = {};
			int empty = 1;
			for (dim r = 0; r < p->size; r++)
				for (dim s = 0; s < p->size; s++) {
					dim h = h0 + r, w = w0 + s;
					if (h < 0 || h >= p->h || w < 0 || w >= p->w) continue;
					vec v = load_n(x + ((image * p->h + h) * p->w + w) * p->c + j, n);
					veci t = (veci){} + (int32_t)(r * p->size + s), wins = (v > top) | (v != v);
					if (empty) top = v, where = t, empty = 0;
					else top = pick(wins, v, top), where = (t & wins) | (where & ~wins);
				}
			store_n(y + j, top, n);
			bytes b = __builtin_convertvector(where, bytes);
			memcpy(index + j, &b, n);
		}
	}
}

// max_pool_back writes dx of images first..end.
static void max_pool_back(const struct pool *p, dim first, dim end, const float *dy, const uint8_t *index, float *dx) {
	dim in = p->h * p->w * p->c, out = p->oh * p->ow * p->c;
	// Windows that tile the image write every element once and need no sum.
	int once = p->stride == p->size && p->pad == 0 && p->h == p->oh * p->size && p->w == p->ow * p->size;
	if (!once) memset(dx + first * in, 0, (end - first) * in * sizeof(float));
	for (dim o = first * p->oh * p->ow; o < end * p->oh * p->ow; o++) {
		dim h0 = o / p->ow % p->oh * p->stride - p->pad, w0 = o % p->ow * p->stride - p->pad;
		float *image = dx + o * p->c / out * in;
		for (dim j = 0; j < p->c; j += LANES) {
			dim n = min_dim(p->c - j, LANES);
			vec g = load_n(dy + o * p->c + j, n);
			bytes b = {};
			memcpy(&b, index + o * p->c + j, n);
			veci where = __builtin_convertvector(b, veci);
			for (dim r = 0; r < p->size; r++)
				for (dim s = 0; s < p->size; s++) {
					dim h = h0 + r, w = w0 + s;
					if (h < 0 || h >= p->h || w < 0 || w >= p->w) continue;
					float *to = image + (h * p->w + w) * p->c + j;
					vec v = pick(where == (int32_t)(r * p->size + s), g, (vec){});
					store_n(to, once ? v : v + load_n(to, n), n);
				}
		}
	}
}

// spread_mean writes dy[c] * factor to each of rows rows.
static void spread_mean(dim rows, dim c, float factor, const float *dy, float *dx) {
	for (dim r = 0; r < rows; r++, dx += c)
		for (dim j = 0; j < c; j += LANES) {
			dim n = min_dim(c - j, LANES);
			store_n(dx + j, load_n(dy + j, n) * factor, n);
		}
}
