// Products of bfloat16 with sums in float32, by the processor's own instructions: AMX's tiles
// (TDPBF16PS) and AVX512_BF16's vectors (VDPBF16PS). Both multiply pairs along the inner dimension,
// so b is packed in panels of DOTS columns. A panel has a row of pairs for every two of k, and k is
// padded with zeros to a multiple of DOTS.
#ifndef GPUSTALL_KERNELS_CPU_DOTS_H
#define GPUSTALL_KERNELS_CPU_DOTS_H

#include "native.h"

enum { DOTS = 32 };

// What the processor and the system offer. A larger value is faster.
enum { NO_DOTS, DOTS_VECTORS, DOTS_TILES };
int dots_best(void);

// The left operand. A block is 16 rows, `ld` apart; blocks lie `block` apart. DOTS elements of a row
// lie together, and the next DOTS `step` further on.
struct rows16 {
	const half *p;
	dim ld, block, step;
};

// dots_gemm computes c[m,n] (+)= a[m,k] b (+ bias) (then ReLU) and writes float32 or, with
// HALVES, bfloat16.
enum { HALVES = 4 };
void dots_gemm(int how, dim m, dim n, dim k, const struct rows16 *a, const half *b, void *c, dim ldc,
               const float *bias, dim flags);

// pair_rows packs b[k,n], rows ldb apart, for dots_gemm: panels first..end, `step` apart.
void pair_rows(dim n, dim k, const half *b, dim ldb, dim first, dim end, half *out, dim step);

// pair_tap packs channels first..end, multiples of DOTS, of the pixels that tap (dr, ds) of a window
// reads for positions from..to of the grid, with zeros outside of the image.
void pair_tap(const struct window *g, const half *x, dim from, dim to, dim first, dim end, half *out, dim step);

// turn_rows makes a left operand whose rows are the columns of b[k,n]; n is a multiple of 16. Block i
// holds columns 16*i to 16*i+15: for every DOTS of k, 16 rows of DOTS, with zeros past k.
void turn_rows(dim n, dim k, const half *b, dim ldb, half *out, dim block);

// scatter_rows writes rows of c at every stride-th pixel of images h*w, or adds them.
void scatter_rows(dim first, dim end, dim oh, dim ow, dim h, dim w, dim h0, dim w0, dim stride, dim c, const half *from,
                  half *to, dim flags);

#endif
