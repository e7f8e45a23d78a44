// conv_backward_data.cu: dx (+)= the gradient with respect to x. blockIdx.y is the phase (see
// conv.h). With a stride, pixels that see different taps are separate products, so that no zero is
// multiplied. A phase without taps is cleared, or left as it is when adding. With parts, each block
// writes its part of the sum there instead, zeros where it has none, and adding is left to the
// launch that adds them up.
#include "conv_mma.h"
#include "conv_simt.h"

template <class L> KD_FN void data_simt(const typename L::T *dy, const typename L::T *w, typename L::T *dx, float *parts, const conv &g, bool accumulate) {
  typedef typename L::T T;
  typedef simt_operand<L, L::BM, true> A;
  typedef simt_operand<L, L::BN, false> B;
  phase f(g, blockIdx.y);
  block_tile at(L::BM, L::BN, g.c);
  depth_part part(tap_walk<L::BK>::tiles(f, g.k));
  if (at.m0 >= g.n * f.rows * f.cols || (accumulate && !parts && part.tiles == 0)) return;
  data_dy<T, L::V, A::N, L::BK> a(dy, g, f, at.m0 + A::row(), A::STEP, A::col(), part.begin);
  data_w<T, L::V, B::N, L::BK> b(w, g, f, B::row(), B::STEP, at.n0 + B::col(), part.begin);
  float acc[8][8] = {};
  product<L, true, false>(acc, a, b, part.tiles);
  if (parts) {
    store<L>(parts + (long)blockIdx.z * g.n * g.h * g.w * g.c, acc, at.n0, g.c, false, phase_row{g, f, at.m0});
    return;
  }
  store<L>(dx, acc, at.n0, g.c, accumulate, phase_row{g, f, at.m0});
}

#define DATA_SIMT(type, T, BM, BN, V)                                                                                       \
  KD_KERNEL __launch_bounds__(BM *BN / 64)                                                                                  \
  conv_backward_data_##type##_simt##BM##x##BN##v##V(const T *dy, const T *w, T *dx, float *parts, CONV_PARAMS, int accumulate) { \
    data_simt<simt_tile<T, BM, BN, V>>(dy, w, dx, parts, CONV_ARGS, accumulate);                                            \
  }                                                                                                                         \
  KD_ENTRY(conv_backward_data_##type##_simt##BM##x##BN##v##V)
#define CONV_SIMT DATA_SIMT
#include "conv_tiles_simt.h"

#ifdef KD_TENSOR
template <class L> KD_FN void data_mma(const typename L::T *dy, const typename L::T *w, typename L::T *dx, float *parts, const conv &g, bool accumulate) {
  typedef typename L::T T;
  typedef mma_layout<L, true, false> Y;
  KD_DYN_SHARED(smem);
  phase f(g, blockIdx.y);
  block_tile at(L::BM, L::BN, g.c);
  depth_part part(tap_walk<L::BK>::tiles(f, g.k));
  if (at.m0 >= g.n * f.rows * f.cols || (accumulate && !parts && part.tiles == 0)) return;
  data_dy<T, L::V, Y::A::N, L::BK> a(dy, g, f, at.m0 + Y::A::row(), Y::A::STEP, Y::A::col(), part.begin);
  data_w<T, L::V, Y::B::N, L::BK> b(w, g, f, Y::B::row(), Y::B::STEP, at.n0 + Y::B::col(), part.begin);
  float acc[L::MT][L::NT][4] = {};
  product<L, true, false>(acc, a, b, part.tiles, smem);
  if (parts) {
    store_part<L>(parts + (long)blockIdx.z * g.n * g.h * g.w * g.c, acc, at.n0, g.c, smem, phase_row{g, f, at.m0});
    return;
  }
  store<L, Y>(dx, acc, at.n0, g.c, accumulate, smem, phase_row{g, f, at.m0});
}

// At least one block a multiprocessor: left to itself ptxas may spill to fit more.
#define CONV_MMA(type, T, BM, BN, BK, S, WM, WN)                                                                            \
  KD_KERNEL __launch_bounds__(WM *WN * 32, MMA_BLOCKS(BM, BN, BK, S)) \
  conv_backward_data_##type##_mma##BM##x##BN##x##BK##s##S(const T *dy, const T *w, T *dx, float *parts, CONV_PARAMS, int accumulate) { \
    data_mma<mma_tile<T, BM, BN, BK, S, WM, WN>>(dy, w, dx, parts, CONV_ARGS, accumulate);                                  \
  }                                                                                                                         \
  KD_ENTRY(conv_backward_data_##type##_mma##BM##x##BN##x##BK##s##S)
#include "conv_tiles.h"
#endif
