// Conversions, copies of frames, and the optimizers' rules.

static void widen(dim n, const half *from, float *to) {
	for (dim i = 0; i < n; i += LANES) store_n(to + i, load_half_n(from + i, n - i), n - i);
}

static void narrow(dim n, const float *from, half *to) {
	for (dim i = 0; i < n; i += LANES) store_half_n(to + i, load_n(from + i, n - i), n - i);
}

// copy_run copies n bytes, from one pixel's channels to another's.
static inline __attribute__((always_inline)) void copy_run(char *to, const char *from, dim n) {
	typedef struct { char b[64]; } line;
#define WITH(T)                                                          \
	if (n >= (dim)sizeof(T)) { /* the last overlaps the one before it */ \
		for (dim i = 0; i < n; i += sizeof(T)) {                         \
			dim at = min_dim(i, n - sizeof(T));                          \
			T t;                                                         \
			memcpy(&t, from + at, sizeof(T)), memcpy(to + at, &t, sizeof(T)); \
		}                                                                \
		return;                                                          \
	}
	WITH(line)
	WITH(__int128)
	WITH(int64_t)
	WITH(int32_t)
	WITH(int16_t)
#undef WITH
}

// pad_channels writes rows of c floats as `wide` bfloat16s each, zeros behind.
static void pad_channels(dim rows, dim c, dim wide, const float *x, half *y) {
	for (dim r = 0; r < rows; r++, x += c, y += wide)
		for (dim j = 0; j < wide; j += LANES) {
			dim n = c - j, whole = r * c + j + LANES <= rows * c; // a whole vector may be read
			vec v = n <= 0 ? (vec){} : whole ? load(x + j) : load_n(x + j, n);
			veci lane;
			for (int l = 0; l < LANES; l++) lane[l] = l;
			vech h = narrow_vec(pick(lane < (int32_t)n, v, (vec){}));
			copy_run((char *)(y + j), (const char *)&h, min_dim(wide - j, LANES) * sizeof(half));
		}
}

// stack_frames writes frames first..end of y: at each position the channels of taps
// frames of x, here of `size` bytes an element.
static void stack_frames(const struct frames *f, dim size, dim first, dim end, const void *x, void *y) {
	dim run = f->c * size;
	for (dim i = first; i < end; i++) {
		const char *clip = (const char *)x + i / f->ot * f->t * f->pixels * run;
		char *to = (char *)y + i * f->pixels * f->taps * run;
		for (dim p = 0; p < f->pixels; p++)
			for (dim k = 0; k < f->taps; k++, to += run) {
				dim from = i % f->ot + k - f->pad;
				if (from >= 0 && from < f->t) copy_run(to, clip + (from * f->pixels + p) * run, run);
				else memset(to, 0, run);
			}
	}
}

// update applies an optimizer's rule to n weights w, with gradients grad and slots a and
// b. kernels/rule_*.go has the formulas; h has the settings.
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
