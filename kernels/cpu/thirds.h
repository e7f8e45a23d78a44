// Products of float32 by AMX's tiles, which multiply bfloat16s. A float32 is the sum of three
// bfloat16s, h + m + l, of 8 bits each. h is the float rounded, m is the remainder rounded, l is the
// rest. Of the nine products of two such sums, six are made:
//
//	h h' + h m' + m h' + m m' + h l' + l h'
//
// The three that are left out are under 2^-24 of the whole, less than float32 rounds off. Each of the
// six is exact, and they are summed in float32. This is BF16x3 of Henry, Tang and Heinecke, "Leveraging
// the bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations", 2019.
//
// Anything under 2^-126 counts as zero, also parts and their products. So operands and products under
// 1e-31 lose digits. From 2^128 - 2^119 = 3.396e38 on, h is an infinity, which makes NaN.
#ifndef GPUSTALL_KERNELS_CPU_THIRDS_H
#define GPUSTALL_KERNELS_CPU_THIRDS_H

#include "native.h"

// Operands lie in chunks of THIRDS_K of the inner dimension, with zeros past its end. The three thirds
// of a chunk follow one another. A third has 16 rows of a left operand, or 16 pairs for each of
// THIRDS_N columns of a right one.
enum { THIRDS_K = 32, THIRDS_N = 32, THIRDS_LEFT = 3 * 16 * 32, THIRDS_RIGHT = 3 * 16 * 64 };

// thirds_left packs the columns of a[k,m] as rows, in blocks of 16, zeros past the last.
void thirds_left(dim m, dim k, const float *a, dim lda, half *out);

// thirds_tap packs channels first..end of what tap (dr, ds) of a window reads for positions from..to of
// the grid, with zeros outside. They become rows of a left operand whose blocks lie `block` apart.
void thirds_tap(const struct window *g, const float *x, dim from, dim to, dim first, dim end, half *out, dim block);

// thirds_pairs packs the same as panels of a right operand, `step` apart. The positions are its inner
// dimension, the channels its columns.
void thirds_pairs(const struct window *g, const float *x, dim from, dim to, dim first, dim end, half *out, dim step);

// thirds_right packs panels first..end of b[k,n], `step` apart; or, turned, of b[n,k].
void thirds_right(dim n, dim k, const float *b, dim ldb, dim turned, dim first, dim end, half *out, dim step);

// thirds_gemm computes c[m,n] (+)= a b (+ bias) (then ReLU) with the flags of native.h. a's blocks
// and b's panels lie `block` and `panel` apart. Meanwhile `lines` lines of 64 bytes are fetched into
// the second-level cache, for the next call.
void thirds_gemm(dim m, dim n, dim k, const half *a, dim block, const half *b, dim panel, float *c, dim ldc,
                 const float *bias, dim flags, const float *soon, dim lines);

#endif
