// Matrix products. The micro-kernels hold ROWS x 2 vectors of the result in
// registers and run over the whole inner dimension: with 14 rows of two 16-float
// vectors an AVX-512 processor needs 16 loads for 28 multiply-adds.

#define PANEL (2 * LANES)

// micro_nn: c[rows, PANEL] from a's rows and one packed panel.
// micro_tn: the same with a read by columns and b by rows of stride ldb.
typedef void micro_nn(dim k, const float *a, dim lda, const float *b, float *c, dim ldc,
                      const float *bias, dim flags);
typedef void micro_tn(dim k, const float *a, dim lda, const float *b, dim ldb, float *c, dim ldc, dim flags);

#define MICRO(R)                                                                                    \
	static void nn_##R(dim k, const float *a, dim lda, const float *b, float *c, dim ldc,              \
	                   const float *bias, dim flags) {                                                \
		vec acc[R][2];                                                                             \
		vec s0 = {}, s1 = {};                                                                      \
		if (bias) s0 = load(bias), s1 = load(bias + LANES);                                        \
		_Pragma("GCC unroll 16") for (int i = 0; i < R; i++) acc[i][0] = s0, acc[i][1] = s1;       \
		for (dim p = 0; p < k; p++, b += PANEL) {                                                  \
			vec b0 = load(b), b1 = load(b + LANES);                                                \
			_Pragma("GCC unroll 16") for (int i = 0; i < R; i++) {                                 \
				vec x = all(a[i * lda + p]);                                                       \
				acc[i][0] += x * b0, acc[i][1] += x * b1;                                          \
			}                                                                                      \
		}                                                                                          \
		_Pragma("GCC unroll 16") for (int i = 0; i < R; i++, c += ldc) {                           \
			if (flags & ACCUMULATE) acc[i][0] += load(c), acc[i][1] += load(c + LANES);            \
			if (flags & RELU) acc[i][0] = relu(acc[i][0]), acc[i][1] = relu(acc[i][1]);            \
			store(c, acc[i][0]), store(c + LANES, acc[i][1]);                                      \
		}                                                                                          \
	}                                                                                              \
	static void tn_##R(dim k, const float *a, dim lda, const float *b, dim ldb, float *c, dim ldc,     \
	                   dim flags) {                                                                   \
		vec acc[R][2] = {};                                                                        \
		for (dim p = 0; p < k; p++, a += lda, b += ldb) {                                          \
			vec b0 = load(b), b1 = load(b + LANES);                                                \
			_Pragma("GCC unroll 16") for (int i = 0; i < R; i++) {                                 \
				vec x = all(a[i]);                                                                 \
				acc[i][0] += x * b0, acc[i][1] += x * b1;                                          \
			}                                                                                      \
		}                                                                                          \
		_Pragma("GCC unroll 16") for (int i = 0; i < R; i++, c += ldc) {                           \
			if (flags & ACCUMULATE) acc[i][0] += load(c), acc[i][1] += load(c + LANES);            \
			store(c, acc[i][0]), store(c + LANES, acc[i][1]);                                      \
		}                                                                                          \
	}                                                                                              \
	static void tn_half_##R(dim k, const float *a, dim lda, const float *b, dim ldb, float *c,         \
	                        dim ldc, dim flags) {                                                     \
		vec acc[R] = {};                                                                           \
		for (dim p = 0; p < k; p++, a += lda, b += ldb) {                                          \
			vec b0 = load(b);                                                                      \
			_Pragma("GCC unroll 16") for (int i = 0; i < R; i++) acc[i] += all(a[i]) * b0;         \
		}                                                                                          \
		_Pragma("GCC unroll 16") for (int i = 0; i < R; i++, c += ldc) {                           \
			if (flags & ACCUMULATE) acc[i] += load(c);                                             \
			store(c, acc[i]);                                                                      \
		}                                                                                          \
	}

MICRO(1)
MICRO(2)
MICRO(3)
MICRO(4)
#if ROWS >= 6
MICRO(5)
MICRO(6)
#endif
#if ROWS >= 14
MICRO(7)
MICRO(8)
MICRO(9)
MICRO(10)
MICRO(11)
MICRO(12)
MICRO(13)
MICRO(14)
#endif
#undef MICRO

#if ROWS >= 14
#define TABLE(f) {0, f##1, f##2, f##3, f##4, f##5, f##6, f##7, f##8, f##9, f##10, f##11, f##12, f##13, f##14}
#elif ROWS >= 6
#define TABLE(f) {0, f##1, f##2, f##3, f##4, f##5, f##6}
#else
#define TABLE(f) {0, f##1, f##2, f##3, f##4}
#endif
static micro_nn *const nn_rows[] = TABLE(nn_);
static micro_tn *const tn_rows[] = TABLE(tn_);
static micro_tn *const tn_half_rows[] = TABLE(tn_half_);
#undef TABLE

static void gemm_nn(dim m, dim n, dim k, const float *a, dim lda, const float *b, float *c, dim ldc,
                    const float *bias, dim flags) {
	dim blocks = (m + ROWS - 1) / ROWS; // of nearly equal height, none too low to be fast
	for (dim j = 0; j < n; j += PANEL, b += k * PANEL) {
		dim width = min_dim(n - j, PANEL);
		float edge_bias[PANEL] = {0}, edge[ROWS * PANEL];
		const float *bj = bias ? bias + j : 0;
		if (bias && width < PANEL) memcpy(edge_bias, bj, width * sizeof(float)), bj = edge_bias;
		for (dim i = 0; i < blocks; i++) {
			dim lo = m * i / blocks, rows = m * (i + 1) / blocks - lo;
			float *ci = c + lo * ldc + j;
			if (width == PANEL) {
				nn_rows[rows](k, a + lo * lda, lda, b, ci, ldc, bj, flags);
				continue;
			}
			for (dim r = 0; flags & ACCUMULATE && r < rows; r++)
				memcpy(edge + r * PANEL, ci + r * ldc, width * sizeof(float));
			nn_rows[rows](k, a + lo * lda, lda, b, edge, PANEL, bj, flags);
			for (dim r = 0; r < rows; r++) memcpy(ci + r * ldc, edge + r * PANEL, width * sizeof(float));
		}
	}
}

static void gemm_tn(dim m, dim n, dim k, const float *a, dim lda, const float *b, dim ldb, float *c,
                    dim ldc, dim flags) {
	dim blocks = (m + ROWS - 1) / ROWS;
	for (dim j = 0; j < n;) {
		micro_tn *const *micro = n - j >= PANEL ? tn_rows : tn_half_rows;
		for (dim i = 0; i < blocks; i++) {
			dim lo = m * i / blocks, rows = m * (i + 1) / blocks - lo;
			micro[rows](k, a + lo, lda, b + j, ldb, c + lo * ldc + j, ldc, flags);
		}
		j += micro == tn_rows ? PANEL : LANES;
	}
}

static void pack(dim n, dim k, const float *b, dim ldb, dim transposed, dim first, dim end,
                 float *out, dim step) {
	for (dim j = first; j < end; j++) {
		float *o = out + j * step;
		dim width = min_dim(n - j * PANEL, PANEL);
		if (transposed) {
			// 16 rows of k at a time keep both sides in the first cache.
			for (dim p0 = 0; p0 < k; p0 += 16)
				for (dim i = 0; i < PANEL; i++) {
					const float *src = b + (j * PANEL + i) * ldb;
					for (dim p = p0; p < min_dim(p0 + 16, k); p++) o[p * PANEL + i] = i < width ? src[p] : 0;
				}
			continue;
		}
		for (dim p = 0; p < k; p++) {
			memcpy(o + p * PANEL, b + p * ldb + j * PANEL, width * sizeof(float));
			memset(o + p * PANEL + width, 0, (PANEL - width) * sizeof(float));
		}
	}
}
