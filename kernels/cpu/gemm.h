// Matrix products. The micro-kernels hold ROWS x 2 vectors of the result in registers
// and run over the whole inner dimension. With 14 rows of two 16-float vectors, an
// AVX-512 processor needs 16 loads for 28 multiply-adds.

#define PANEL (2 * LANES)

// STRIP is the floats that a row of a packed strip of ROWS takes, whole vectors.
#define STRIP ((ROWS + LANES - 1) / LANES * LANES)

// micro_nn computes c[rows, PANEL] from a's rows and one packed panel. Unless soon is null, each step of
// k fetches a line of it.
// micro_tn does the same with a read by columns and b by rows of stride ldb. It fetches soon into the
// second-level cache.
typedef void micro_nn(dim k, const float *a, dim lda, const float *b, float *c, dim ldc,
                      const float *bias, dim flags, const float *soon);
typedef void micro_tn(dim k, const float *a, dim lda, const float *b, dim ldb, float *c, dim ldc, dim flags, const float *soon);

// fetch_tile fetches the results that a product of `rows` rows of a panel will be added to.
static inline __attribute__((always_inline)) void fetch_tile(const float *c, dim ldc, const int rows) {
	_Pragma("GCC unroll 16") for (int i = 0; i < rows; i++, c += ldc)
		__builtin_prefetch(c, 1), __builtin_prefetch(c + LANES, 1);
}

#define MICRO(R)                                                                                    \
	static void nn_##R(dim k, const float *a, dim lda, const float *b, float *c, dim ldc,              \
	                   const float *bias, dim flags, const float *soon) {                             \
		vec acc[R][2];                                                                             \
		dim line = soon ? 16 : 0;                                                                  \
		if (!soon) soon = b;                                                                       \
		if (flags & ACCUMULATE) fetch_tile(c, ldc, R);                                              \
		vec s0 = {}, s1 = {};                                                                      \
		if (bias) s0 = load(bias), s1 = load(bias + LANES);                                        \
		_Pragma("GCC unroll 16") for (int i = 0; i < R; i++) acc[i][0] = s0, acc[i][1] = s1;       \
		for (dim p = 0; p < k; p++, b += PANEL, soon += line) {                                    \
			__builtin_prefetch(soon);                                                              \
			vec b0 = load(b), b1 = load(b + LANES);                                                \
			_Pragma("GCC unroll 16") for (int i = 0; i < R; i++) {                                 \
				vec x = all(a[i * lda + p]);                                                       \
				acc[i][0] += x * b0, acc[i][1] += x * b1;                                          \
			}                                                                                      \
		}                                                                                          \
		_Pragma("GCC unroll 16") for (int i = 0; i < R; i++, c += ldc) {                           \
			if (flags & ACCUMULATE) acc[i][0] += load(c), acc[i][1] += load(c + LANES);            \
			if (flags & RELU) acc[i][0] = relu(acc[i][0]), acc[i][1] = relu(acc[i][1]);            \
			if (flags & STREAM) stream(c, acc[i][0]), stream(c + LANES, acc[i][1]);                \
			else store(c, acc[i][0]), store(c + LANES, acc[i][1]);                                 \
		}                                                                                          \
	}                                                                                              \
	static void tn_##R(dim k, const float *a, dim lda, const float *b, dim ldb, float *c, dim ldc,     \
	                   dim flags, const float *soon) {                                                \
		vec acc[R][2] = {};                                                                        \
		dim line = soon ? 16 : 0;                                                                  \
		if (!soon) soon = b;                                                                       \
		if (flags & ACCUMULATE) fetch_tile(c, ldc, R);                                              \
		for (dim p = 0; p < k; p++, a += lda, b += ldb, soon += line) {                            \
			__builtin_prefetch(soon, 0, 2);                                                        \
			vec b0 = load(b), b1 = load(b + LANES);                                                \
			_Pragma("GCC unroll 16") for (int i = 0; i < R; i++) {                                 \
				vec x = all(a[i]);                                                                 \
				acc[i][0] += x * b0, acc[i][1] += x * b1;                                          \
			}                                                                                      \
		}                                                                                          \
		_Pragma("GCC unroll 16") for (int i = 0; i < R; i++, c += ldc) {                           \
			if (flags & ACCUMULATE) acc[i][0] += load(c), acc[i][1] += load(c + LANES);            \
			if (flags & STREAM) stream(c, acc[i][0]), stream(c + LANES, acc[i][1]);                \
			else store(c, acc[i][0]), store(c + LANES, acc[i][1]);                                 \
		}                                                                                          \
	}                                                                                              \
	static void tn_half_##R(dim k, const float *a, dim lda, const float *b, dim ldb, float *c,         \
	                        dim ldc, dim flags, const float *soon) {                                  \
		vec acc[R] = {};                                                                           \
		dim line = soon ? 16 : 0;                                                                  \
		if (!soon) soon = b;                                                                       \
		for (dim p = 0; p < k; p++, a += lda, b += ldb, soon += line) {                            \
			__builtin_prefetch(soon, 0, 2);                                                        \
			vec b0 = load(b);                                                                      \
			_Pragma("GCC unroll 16") for (int i = 0; i < R; i++) acc[i] += all(a[i]) * b0;         \
		}                                                                                          \
		_Pragma("GCC unroll 16") for (int i = 0; i < R; i++, c += ldc) {                           \
			if (flags & ACCUMULATE) acc[i] += load(c);                                             \
			store(c, acc[i]);                                                                      \
		}                                                                                          \
	}

#if ROWS >= 14
#define EACH_ROWS(f) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11) f(12) f(13) f(14)
#define TABLE(f) {0, f##1, f##2, f##3, f##4, f##5, f##6, f##7, f##8, f##9, f##10, f##11, f##12, f##13, f##14}
#elif ROWS >= 6
#define EACH_ROWS(f) f(1) f(2) f(3) f(4) f(5) f(6)
#define TABLE(f) {0, f##1, f##2, f##3, f##4, f##5, f##6}
#else
#define EACH_ROWS(f) f(1) f(2) f(3) f(4)
#define TABLE(f) {0, f##1, f##2, f##3, f##4}
#endif
EACH_ROWS(MICRO)
#undef MICRO
static micro_nn *const nn_rows[] = TABLE(nn_);
static micro_tn *const tn_rows[] = TABLE(tn_);
static micro_tn *const tn_half_rows[] = TABLE(tn_half_);

static void gemm_nn(dim m, dim n, dim k, const float *a, dim lda, const float *b, float *c, dim ldc,
                    const float *bias, dim flags, const float *next) {
	dim blocks = (m + ROWS - 1) / ROWS; // of nearly equal height, so that none is too low to be fast
	if (!aligned(c, ldc)) flags &= ~STREAM;
	for (dim j = 0; j < n; j += PANEL, b += k * PANEL) {
		dim width = min_dim(n - j, PANEL);
		float edge_bias[PANEL] = {0}, edge[ROWS * PANEL];
		const float *bj = bias ? bias + j : 0, *follows = n - j > PANEL ? b + k * PANEL : next;
		if (bias && width < PANEL) memcpy(edge_bias, bj, width * sizeof(float)), bj = edge_bias;
		for (dim i = 0; i < blocks; i++) {
			dim lo = m * i / blocks, rows = m * (i + 1) / blocks - lo;
			float *ci = c + lo * ldc + j;
			// soon is the next rows during the first panel. Later it is the next panel, of which
			// each of two blocks fetches a half.
			const float *soon = follows && i * 16 < PANEL ? follows + i * 16 * k : 0;
			if (flags & COLD && j == 0) soon = a + (lo + rows) * lda;
			if (width == PANEL) {
				nn_rows[rows](k, a + lo * lda, lda, b, ci, ldc, bj, flags, soon);
				continue;
			}
			for (dim r = 0; flags & ACCUMULATE && r < rows; r++)
				memcpy(edge + r * PANEL, ci + r * ldc, width * sizeof(float));
			nn_rows[rows](k, a + lo * lda, lda, b, edge, PANEL, bj, flags & ~STREAM, soon);
			for (dim r = 0; r < rows; r++) memcpy(ci + r * ldc, edge + r * PANEL, width * sizeof(float));
		}
	}
	if (flags & STREAM) stream_end();
}

static void gemm_tn(dim m, dim n, dim k, const float *a, dim lda, const float *b, dim ldb, float *c,
                    dim ldc, dim flags) {
	dim blocks = (m + ROWS - 1) / ROWS;
	if (!aligned(c, ldc)) flags &= ~STREAM;
	for (dim j = 0; j < n;) {
		micro_tn *const *micro = n - j >= PANEL ? tn_rows : tn_half_rows;
		for (dim i = 0; i < blocks; i++) {
			dim lo = m * i / blocks, rows = m * (i + 1) / blocks - lo;
			micro[rows](k, a + lo, lda, b + j, ldb, c + lo * ldc + j, ldc, flags, 0);
		}
		j += micro == tn_rows ? PANEL : LANES;
	}
	if (flags & STREAM) stream_end();
}

// gemm_rows is gemm_tn of whole rows, a's of m floats and b's of n. It fetches the `next` rows after
// them, one line for each step of k.
static void gemm_rows(dim m, dim n, dim k, const float *a, const float *b, float *c, dim flags, dim next) {
	dim blocks = (m + ROWS - 1) / ROWS, done = 0, after_a = next * m / 16, after_b = next * n / 16; // lines
	for (dim j = 0; j < n;) {
		micro_tn *const *micro = n - j >= PANEL ? tn_rows : tn_half_rows;
		for (dim i = 0; i < blocks; i++, done += k) {
			dim lo = m * i / blocks, rows = m * (i + 1) / blocks - lo;
			const float *soon = done < after_a ? a + k * m + done * 16
			                  : done - after_a < after_b ? b + k * n + (done - after_a) * 16 : 0;
			micro[rows](k, a + lo, m, b + j, n, c + lo * n + j, n, flags, soon);
		}
		j += micro == tn_rows ? PANEL : LANES;
	}
}

// gemm_strips computes c[m,n] (+)= sum over p of a[p,m] b[p,n] from packed strips of a. Strip i holds k
// rows of STRIP floats. b's panels lie step floats apart, their rows ldb.
static void gemm_strips(dim m, dim n, dim k, const float *a, const float *b, dim ldb, dim step, float *c, dim ldc,
                        dim flags) {
	dim blocks = (m + ROWS - 1) / ROWS;
	flags &= ~STREAM;
	for (dim j = 0; j < n; j += PANEL, b += step) {
		micro_tn *const *micro = n - j >= PANEL ? tn_rows : tn_half_rows;
		for (dim i = 0; i < blocks; i++) {
			dim lo = m * i / blocks, rows = m * (i + 1) / blocks - lo;
			micro[rows](k, a + i * k * STRIP, STRIP, b, ldb, c + lo * ldc + j, ldc, flags, 0);
		}
	}
}

// pack_strips packs rows first..first+rows of a[k,m] for gemm_strips.
static void pack_strips(dim m, dim k, const float *a, dim lda, dim first, dim rows, float *out) {
	enum { AHEAD = 8 }; // rows that are read side by side
	dim blocks = (m + ROWS - 1) / ROWS;
	out += first * STRIP;
	for (dim p = 0; p < rows; p += AHEAD, a += AHEAD * lda) {
		dim deep = min_dim(rows - p, AHEAD);
		for (dim i = 0; i < blocks; i++) {
			dim lo = m * i / blocks, width = min_dim(m - lo, STRIP);
			float *o = out + i * k * STRIP + p * STRIP;
			for (dim r = 0; r < deep; r++, o += STRIP)
				for (dim l = 0; l < STRIP; l += LANES) {
					dim n = min_dim(width - l, LANES);
					if (n > 0) store(o + l, load_n(a + r * lda + lo + l, n));
				}
		}
	}
}

// turn transposes LANES vectors: each round interleaves the halves of the list.
static inline __attribute__((always_inline)) void turn(vec *v) {
	for (int n = 1; n < LANES; n *= 2) {
		vec o[LANES];
		_Pragma("GCC unroll 8") for (int i = 0; i < LANES / 2; i++) {
			o[2 * i] = INTERLEAVE_LOW(v[i], v[i + LANES / 2]);
			o[2 * i + 1] = INTERLEAVE_HIGH(v[i], v[i + LANES / 2]);
		}
		_Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++) v[i] = o[i];
	}
}

// pack_turned packs LANES columns of a panel, of which the first `width` exist.
static void pack_turned(dim width, dim k, const float *b, dim ldb, float *out) {
	for (dim p = 0; p < k; p += LANES) {
		vec v[LANES];
		dim deep = min_dim(k - p, LANES);
		if (width >= LANES && deep == LANES)
			_Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++) v[i] = load(b + i * ldb + p);
		else
			for (int i = 0; i < LANES; i++) v[i] = i < width ? load_n(b + i * ldb + p, deep) : (vec){};
		turn(v);
		for (dim l = 0; l < deep; l++) store(out + (p + l) * PANEL, v[l]);
	}
}

static void pack(dim n, dim k, const float *b, dim ldb, dim transposed, dim first, dim end,
                 float *out, dim step) {
	for (dim j = first; transposed && j < end; j++)
		for (dim half = 0; half < PANEL; half += LANES)
			pack_turned(n - j * PANEL - half, k, b + (j * PANEL + half) * ldb, ldb, out + j * step + half);
	for (dim p = 0; !transposed && p < k; p++, b += ldb) // rows as they lie in memory
		for (dim j = first; j < end; j++) {
			float *o = out + j * step + p * PANEL;
			dim width = min_dim(n - j * PANEL, PANEL);
			if (width == PANEL) {
				store(o, load(b + j * PANEL)), store(o + LANES, load(b + j * PANEL + LANES));
				continue;
			}
			memcpy(o, b + j * PANEL, width * sizeof(float));
			memset(o + width, 0, (PANEL - width) * sizeof(float));
		}
}
