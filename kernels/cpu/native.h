// The C side of the CPU kernels. Every function exists once for each
// instruction set; struct kernels is one set. All memory is float32 unless said
// otherwise, pointers need only be aligned to 4 bytes, and no function allocates.
#ifndef GPUSTALL_KERNELS_CPU_NATIVE_H
#define GPUSTALL_KERNELS_CPU_NATIVE_H

#include <stdint.h>

// The compiler has AMX's instructions and AVX512_BF16's: see amx.h.
#if defined(__x86_64__) && (defined(__clang__) ? __clang_major__ >= 12 : __GNUC__ >= 11)
#define KNOWS_AMX
#endif

typedef int64_t dim;
typedef uint16_t half; // a bfloat16

// Flags of a product. STREAM: an aligned result is written past the caches, since it is too large to
// stay there. COLD: the left operand is read from memory, its rows without gaps.
enum { ACCUMULATE = 1, RELU = 2, STREAM = 4, COLD = 8 };

// An image tensor and how Winograd's tiles cover it.
struct tiles {
	dim h, w, c;    // of the tensor that is read or written
	dim pad;        // input only
	dim th, tw;     // tiles down and across an image
	dim first, end; // the tiles to work on, counted over all images
	dim step;       // floats from one position to the next
	dim half;       // input and spread with stride 1: which three of six rows of positions; 0: all
};

// A pooling window over images of h*w*c.
struct pool {
	dim h, w, c, oh, ow, size, stride, pad;
	dim t, ot, deep, step; // frames of input and output, of a window, between windows; 1 for images
};

// Frames stacked along the channels: kernels.StackFrames.
struct frames {
	dim t, ot, pixels, c, taps, pad;
};

// The settings of an optimizer's update, and its rules: kernels.Rule.
struct settings {
	float lr, momentum, decay, unscale, step, filled1, filled2, fresh, eps, lr_decay;
};
enum { RULE_MOMENTUM, RULE_SGD, RULE_NESTEROV, RULE_ADAGRAD, RULE_ADADELTA, RULE_ADAM, RULE_ADAMW };

// Minimal filtering of 3x3 convolutions: transforms before and after products.
struct filtering {
	void (*input)(const struct tiles *t, const float *x, float *v);
	void (*input_back)(const struct tiles *t, const float *dy, float *v);
	void (*spread)(const struct tiles *t, const float *dy, float *v);
	void (*output)(const struct tiles *t, const float *m, float *y, const float *bias, dim flags);
	void (*output_back)(const struct tiles *t, const float *m, float *dx, const float *bias, dim flags);
	void (*filter)(dim k, dim c, dim step, dim first, dim end, const float *w, float *u, dim flags);
	void (*filter_back)(dim k, dim c, dim step, dim first, dim end, const float *w, float *u, dim flags);
	void (*gather)(dim c, dim step, dim first, dim end, const float *u, float *dw);
};

// Operations on tensors of a type: batch normalisation and sums over rows of c channels
// (norm.h), element by element, and over windows (tensors.h).
#define TENSORS_OF(NAME, REAL)                                                                                  \
	struct NAME {                                                                                              \
		void (*add_columns)(dim rows, dim c, const REAL *x, double *sum);                                      \
		void (*moments)(dim rows, dim c, const REAL *x, double *mean, double *m2);                             \
		void (*normalise)(dim rows, dim c, const REAL *x, const float *mean, const float *scale,               \
		                  const float *beta, const REAL *residual, REAL *y, dim flags);                        \
		void (*norm_sums)(dim rows, dim c, const REAL *dy, const REAL *x, const REAL *y, const float *mean,    \
		                  double *sum, double *dot, uint16_t *bits);                                           \
		void (*norm_back)(dim rows, dim c, const REAL *dy, const REAL *x, const uint16_t *bits, const float *mean, \
		                  const float *scale, const float *offset, const float *slope, REAL *dx, REAL *dres,   \
		                  dim flags);                                                                          \
		void (*add)(dim n, const REAL *a, const REAL *b, REAL *y, dim flags);                                  \
		void (*relu_back)(dim n, const REAL *dy, const REAL *y, REAL *dx);                                     \
		void (*max_pool)(const struct pool *p, dim first, dim end, const REAL *x, REAL *y, uint8_t *index);    \
		void (*max_pool_back)(const struct pool *p, dim first, dim end, const REAL *dy, const uint8_t *index,  \
		                      REAL *dx);                                                                       \
		void (*spread_mean)(dim rows, dim c, float factor, const REAL *dy, REAL *dx);                          \
		void (*stack_frames_back)(const struct frames *f, dim first, dim end, const REAL *dy, REAL *dx);       \
	}
TENSORS_OF(tensors, float);
TENSORS_OF(half_tensors, half);

// A convolution's geometry, for gathering its operands into rows and for narrow.h.
struct window {
	dim h, w, c;         // the tensor that is read
	dim oh, ow;          // the grid of positions that read it
	dim r, s, stride, pad;
	dim dr, ds;          // the first tap: rows and columns past the window's corner
};

struct kernels {
	dim lanes; // floats in a vector
	dim rows, strip; // of gemm_strips: columns of A in a strip, and the floats that a row of it takes
	dim panel; // columns of a packed panel of gemm_nn's B

	// c[m,n] (+)= a[m,k] b[k,n] (+ bias[n]) (then ReLU). b is packed in panels of
	// `panel` columns. Panel j holds k rows of its columns, with zeros past n. next is
	// where the panels of the next product begin, or null.
	void (*gemm_nn)(dim m, dim n, dim k, const float *a, dim lda, const float *b,
	                float *c, dim ldc, const float *bias, dim flags, const float *next);
	// c[m,n] (+)= sum over p of a[p,m] b[p,n]. n is a multiple of 16.
	void (*gemm_tn)(dim m, dim n, dim k, const float *a, dim lda, const float *b, dim ldb,
	                float *c, dim ldc, dim flags);
	// The same for whole rows. `next` more rows are fetched for the product that follows.
	void (*gemm_rows)(dim m, dim n, dim k, const float *a, const float *b, float *c, dim flags, dim next);
	// The same from packed strips of a, and of b panels whose rows are ldb floats apart.
	void (*gemm_strips)(dim m, dim n, dim k, const float *a, const float *b, dim ldb, dim step, float *c,
	                    dim ldc, dim flags);
	void (*pack_strips)(dim m, dim k, const float *a, dim lda, dim first, dim rows, float *out);
	// Packs b[k,n] for gemm_nn from rows of n (stride ldb) or, transposed, from
	// rows of k. Panels first..end are written, `step` floats apart.
	void (*pack)(dim n, dim k, const float *b, dim ldb, dim transposed, dim first, dim end,
	             float *out, dim step);

	// Convolutions of few channels; see narrow.h.
	void (*narrow_forward)(const struct window *g, dim k, dim first, dim end, const float *x, const float *packed,
	                       const float *bias, float *y, dim flags, float *scratch);
	void (*narrow_weight)(const struct window *g, dim k, dim first, dim end, const float *x, const float *dy,
	                      float *sum, dim flags, float *scratch);

	struct tensors tensors;
	struct half_tensors half_tensors;

	// Conversions, copies, and an optimizer's update; see elementwise.h.
	void (*widen)(dim n, const half *from, float *to);
	void (*narrow)(dim n, const float *from, half *to);
	void (*update)(int rule, dim n, float *w, const float *grad, float *a, float *b, const struct settings *h);
	void (*pad_channels)(dim rows, dim c, dim wide, const float *x, half *y);
	void (*stack_frames)(const struct frames *f, dim size, dim first, dim end, const void *x, void *y);

	// Minimal filtering with stride 1 (winograd.h) and 2 (stride2.h).
	struct filtering stride1, stride2;
};

// gather writes a row of ld floats for each of the positions first..end of the grid: the r*s*c values
// that the window covers, zeros outside. It may write 16 floats more.
void gather(const struct window *g, const float *x, dim first, dim end, float *out, dim ld);

extern const struct kernels kernels_generic;
#if defined(__x86_64__)
extern const struct kernels kernels_avx2, kernels_avx512;
#endif

#endif
