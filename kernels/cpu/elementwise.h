// Operations element by element, and pools.

static void widen(dim n, const half *from, float *to) {
	for (dim i = 0; i < n; i += LANES) store_n(to + i, load_half_n(from + i, n - i), n - i);
}

static void narrow(dim n, const float *from, half *to) {
	for (dim i = 0; i < n; i += LANES) store_half_n(to + i, load_n(from + i, n - i), n - i);
}

// add computes y = a + b (then ReLU).
static void add(dim n, const float *a, const float *b, float *y, dim flags) {
	for (dim i = 0; i < n; i += LANES) {
		dim k = min_dim(n - i, LANES);
		vec v = load_n(a + i, k) + load_n(b + i, k);
		store_n(y + i, flags & RELU ? relu(v) : v, k);
	}
}

static void relu_back(dim n, const float *dy, const float *y, float *dx) {
	for (dim i = 0; i < n; i += LANES) {
		dim k = min_dim(n - i, LANES);
		store_n(dx + i, pick(load_n(y + i, k) > 0, load_n(dy + i, k), (vec){}), k);
	}
}

// update applies an optimizer's rule to n weights w, with gradients grad and slots a and
// b: see kernels/rule_*.go for the formulas. h is what it computes with.
static void update(int rule, dim n, float *w, const float *grad, float *a, float *b, const struct settings *h) {
#define UPDATE(slots, STEP)                                                                                        \
	for (dim i = 0; i < n; i += LANES) {                                                                       \
		dim k = min_dim(n - i, LANES);                                                                     \
		vec x = load_n(w + i, k), g = load_n(grad + i, k) * h->unscale;                                    \
		vec s = slots > 0 ? load_n(a + i, k) : (vec){}, t = slots > 1 ? load_n(b + i, k) : (vec){};        \
		STEP                                                                                               \
		store_n(w + i, x, k);                                                                              \
		if (slots > 0) store_n(a + i, s, k);                                                               \
		if (slots > 1) store_n(b + i, t, k);                                                               \
	}                                                                                                          \
	break;
	const float lr = h->lr, mu = h->momentum, decay = h->decay, fresh = h->fresh, eps = h->eps;
	switch (rule) {
	case RULE_SGD:
		UPDATE(0, x -= lr * (g + decay * x);)
	case RULE_MOMENTUM:
		UPDATE(1, s = mu * s + (g + decay * x); x -= lr * s;)
	case RULE_NESTEROV:
		UPDATE(1, g += decay * x; s = mu * s + g; x -= lr * (g + mu * s);)
	case RULE_ADAGRAD: {
		const float rate = lr / (1 + (h->step - 1) * h->lr_decay);
		UPDATE(1, g += decay * x; s += g * g; x -= rate * g / (root(s) + eps);)
	}
	case RULE_ADADELTA:
		UPDATE(2, g += decay * x; s += (g * g - s) * fresh; g *= root(t + eps) / root(s + eps); t += (g * g - t) * fresh; x -= lr * g;)
	case RULE_ADAM: {
		const float rate = lr / h->filled1, more = 1 / h->filled2;
		UPDATE(2, g += decay * x; s += (g - s) * (1 - mu); t += (g * g - t) * fresh; x -= rate * s / (root(t * more) + eps);)
	}
	case RULE_ADAMW: {
		const float rate = lr / h->filled1, more = 1 / h->filled2;
		UPDATE(2, x -= lr * decay * x; s += (g - s) * (1 - mu); t += (g * g - t) * fresh; x -= rate * s / (root(t * more) + eps);)
	}
	}
#undef UPDATE
}

typedef uint8_t bytes __attribute__((vector_size(LANES)));

// pool_wins says where v replaces the maximum so far: the first of equal maxima
// stays, and a NaN wins over numbers.
static inline __attribute__((always_inline)) veci pool_wins(vec v, vec top) { return (v > top) | (v != v); }

// pool_frame is the first frame under output pixel o, of all clips' frames.
static inline dim pool_frame(const struct pool *p, dim o) {
	dim f = o / (p->oh * p->ow);
	return f / p->ot * p->t + f % p->ot * p->step;
}

// Windows of 2x2 side by side, without padding: what most networks use.
static inline int pool_tiles(const struct pool *p) { return p->size == 2 && p->stride == 2 && p->pad == 0 && p->deep == 1 && p->step == 1; }

static void max_pool_tiles(const struct pool *p, dim first, dim end, const float *x, float *y, uint8_t *index) {
	for (dim o = first; o < end; o++) {
		const float *at = x + ((o / (p->oh * p->ow) * p->h + o / p->ow % p->oh * 2) * p->w + o % p->ow * 2) * p->c;
		const float *px[4] = {at, at + p->c, at + p->w * p->c, at + (p->w + 1) * p->c};
		for (dim j = 0; j < p->c; j += LANES) {
			vec top = load(px[0] + j);
			veci where = {};
			_Pragma("GCC unroll 3") for (int t = 1; t < 4; t++) {
				vec v = load(px[t] + j);
				veci wins = pool_wins(v, top);
				top = pick(wins, v, top), where = (wins & t) | (~wins & where);
			}
			store(y + o * p->c + j, top);
			bytes b = __builtin_convertvector(where, bytes);
			memcpy(index + o * p->c + j, &b, LANES);
		}
	}
}

// max_pool takes the maxima of output pixels first..end.
static void max_pool(const struct pool *p, dim first, dim end, const float *x, float *y, uint8_t *index) {
	if (pool_tiles(p) && p->c % LANES == 0) {
		max_pool_tiles(p, first, end, x, y, index);
		return;
	}
	y += first * p->c, index += first * p->c;
	for (dim o = first; o < end; o++, y += p->c, index += p->c) {
		dim h0 = o / p->ow % p->oh * p->stride - p->pad, w0 = o % p->ow * p->stride - p->pad;
		const float *clip = x + pool_frame(p, o) * p->h * p->w * p->c;
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
						vec v = load_n(clip + ((q * p->h + h) * p->w + w) * p->c + j, n);
						veci t = (veci){} + (int32_t)((q * p->size + r) * p->size + s), wins = pool_wins(v, top);
						if (empty) top = v, where = t, empty = 0;
						else top = pick(wins, v, top), where = (t & wins) | (where & ~wins);
					}
			store_n(y + j, top, n);
			bytes b = __builtin_convertvector(where, bytes);
			memcpy(index + j, &b, n);
		}
	}
}

static void max_pool_tiles_back(const struct pool *p, dim first, dim end, const float *dy, const uint8_t *index, float *dx) {
	for (dim o = first * p->ot * p->oh * p->ow; o < end * p->ot * p->oh * p->ow; o++) {
		float *at = dx + ((o / (p->oh * p->ow) * p->h + o / p->ow % p->oh * 2) * p->w + o % p->ow * 2) * p->c;
		float *px[4] = {at, at + p->c, at + p->w * p->c, at + (p->w + 1) * p->c};
		for (dim j = 0; j < p->c; j += LANES) {
			vec g = load(dy + o * p->c + j);
			bytes b;
			memcpy(&b, index + o * p->c + j, LANES);
			veci where = __builtin_convertvector(b, veci);
			_Pragma("GCC unroll 4") for (int t = 0; t < 4; t++) store(px[t] + j, pick(where == t, g, (vec){}));
		}
	}
}

// max_pool_back writes dx of images, or clips, first..end.
static void max_pool_back(const struct pool *p, dim first, dim end, const float *dy, const uint8_t *index, float *dx) {
	dim in = p->t * p->h * p->w * p->c, pixels = p->ot * p->oh * p->ow;
	if (pool_tiles(p) && p->c % LANES == 0 && p->h == 2 * p->oh && p->w == 2 * p->ow) {
		max_pool_tiles_back(p, first, end, dy, index, dx); // every element is written once
		return;
	}
	memset(dx + first * in, 0, (end - first) * in * sizeof(float));
	for (dim o = first * pixels; o < end * pixels; o++) {
		dim h0 = o / p->ow % p->oh * p->stride - p->pad, w0 = o % p->ow * p->stride - p->pad;
		float *clip = dx + pool_frame(p, o) * p->h * p->w * p->c;
		for (dim j = 0; j < p->c; j += LANES) {
			dim n = min_dim(p->c - j, LANES);
			vec g = load_n(dy + o * p->c + j, n);
			bytes b = {};
			memcpy(&b, index + o * p->c + j, n);
			veci where = __builtin_convertvector(b, veci);
			for (dim q = 0; q < p->deep; q++)
				for (dim r = 0; r < p->size; r++)
					for (dim s = 0; s < p->size; s++) {
						dim h = h0 + r, w = w0 + s;
						if (h < 0 || h >= p->h || w < 0 || w >= p->w) continue;
						float *to = clip + ((q * p->h + h) * p->w + w) * p->c + j;
						vec v = pick(where == (int32_t)((q * p->size + r) * p->size + s), g, (vec){});
						store_n(to, v + load_n(to, n), n);
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

// stack_frames writes frames first..end of y: at each position the channels of taps
// frames of x.
static void stack_frames(const struct frames *f, dim first, dim end, const float *x, float *y) {
	for (dim i = first; i < end; i++)
		for (dim k = 0; k < f->taps; k++) {
			dim from = i % f->ot + k - f->pad, inside = from >= 0 && from < f->t;
			const float *a = x + (i / f->ot * f->t + from) * f->pixels * f->c;
			float *to = y + (i * f->pixels * f->taps + k) * f->c;
			for (dim p = 0; p < f->pixels; p++, a += f->c, to += f->taps * f->c)
				for (dim j = 0; j < f->c; j += LANES) {
					dim n = min_dim(f->c - j, LANES);
					store_n(to + j, inside ? load_n(a + j, n) : (vec){}, n);
				}
		}
}

// stack_frames_back writes frames first..end of dx.
static void stack_frames_back(const struct frames *f, dim first, dim end, const float *dy, float *dx) {
	dim row = f->taps * f->c;
	for (dim i = first; i < end; i++) {
		dim t = i % f->t, k0 = 0, k1 = f->taps; // taps k of frame t + pad - k, those there are
		while (k0 < k1 && t + f->pad - k0 >= f->ot) k0++;
		while (k1 > k0 && t + f->pad - (k1 - 1) < 0) k1--;
		const float *a = dy + (i / f->t * f->ot + t + f->pad) * f->pixels * row;
		float *to = dx + i * f->pixels * f->c;
		for (dim p = 0; p < f->pixels; p++, a += row, to += f->c)
			for (dim j = 0; j < f->c; j += LANES) {
				dim n = min_dim(f->c - j, LANES);
				vec v = {};
				for (dim k = k0; k < k1; k++) v += load_n(a - k * f->pixels * row + k * f->c + j, n);
				store_n(to + j, v, n);
			}
	}
}
