// conv_backward_weight.cu: dw, in float32. The depth is every output pixel, so
// blockIdx.y takes a range of them and writes its own dw; sum_parts (reduce.cu)
// adds these up in their order. The sum does not depend on timing.
#include "conv_mma.h"
#include "conv_simt.h"

template <class L> KD_FN void weight_simt(const typename L::T *x, const typename L::T *dy, float *dw, const conv &g, int per) {
  typedef typename L::T T;
  typedef simt_operand<L, L::BM, false> A;
  typedef simt_operand<L, L::BN, false> B;
  pixel_range px(g, per);
  block_tile at(L::BM, L::BN, g.depth());
  weight_dy<T, L::V, A::N, L::BK> a(dy, g, px.begin, px.end, A::row(), A::STEP, at.m0 + A::col());
  weight_x<T, L::V, B::N, L::BK> b(x, g, px.begin, px.end, B::row(), B::STEP, at.n0 + B::col());
  float acc[8][8] = {};
  product<L, false, false>(acc, a, b, (px.end - px.begin + L::BK - 1) / L::BK);
  float *out = dw + (long)blockIdx.y * g.k * g.depth();
  store<L>(out, acc, at.n0, g.depth(), false, [&](int r) { return at.m0 + r < g.k ? (at.m0 + r) * g.depth() : -1; });
}

#define WEIGHT_SIMT(type, T, BM, BN, V)                                                                                     \
  KD_KERNEL __launch_bounds__(BM *BN / 64)                                                                                  \
  conv_backward_weight_##type##_simt##BM##x##BN##v##V(const T *x, const T *dy, float *dw, CONV_PARAMS, int per) {           \
    weight_simt<simt_tile<T, BM, BN, V>>(x, dy, dw, CONV_ARGS, per);                                                        \
  }                                                                                                                         \
  KD_ENTRY(conv_backward_weight_##type##_simt##BM##x##BN##v##V)
#define CONV_SIMT WEIGHT_SIMT
#include "conv_tiles_simt.h"

#ifdef KD_TENSOR
template <class L> KD_FN void weight_mma(const typename L::T *x, const typename L::T *dy, float *dw, const conv &g, int per) {
  typedef typename L::T T;
  typedef mma_layout<L, false, false> Y;
  KD_DYN_SHARED(smem);
  pixel_range px(g, per);
  block_tile at(L::BM, L::BN, g.depth());
  weight_dy<T, L::V, Y::A::N, L::BK> a(dy, g, px.begin, px.end, Y::A::row(), Y::A::STEP, at.m0 + Y::A::col());
  weight_x<T, L::V, Y::B::N, L::BK> b(x, g, px.begin, px.end, Y::B::row(), Y::B::STEP, at.n0 + Y::B::col());
  float acc[L::MT][L::NT][4] = {};
  product<L, false, false>(acc, a, b, (px.end - px.begin + L::BK - 1) / L::BK, smem);
  float *out = dw + (long)blockIdx.y * g.k * g.depth();
  each_pair<L>(acc, [&](int r, int c, float *v) {
    if (at.m0 + r < g.k && at.n0 + c < g.depth()) *(f32x2 *)(out + (at.m0 + r) * g.depth() + at.n0 + c) = f32x2{v[0], v[1]};
  });
}

// At least one block a multiprocessor: left to itself ptxas may spill to fit more.
#define CONV_MMA(type, T, BM, BN, BK, S, WM, WN)                                                                            \
  KD_KERNEL __launch_bounds__(WM *WN * 32, MMA_BLOCKS(BM, BN, BK, S)) \
  conv_backward_weight_##type##_mma##BM##x##BN##x##BK##s##S(const T *x, const T *dy, float *dw, CONV_PARAMS, int per) {     \
    weight_mma<mma_tile<T, BM, BN, BK, S, WM, WN>>(x, dy, dw, CONV_ARGS, per);                                              \
  }                                                                                                                         \
  KD_ENTRY(conv_backward_weight_##type##_mma##BM##x##BN##x##BK##s##S)
#define CONV_TILES_WIDE // results are few rows and many columns
#include "conv_tiles.h"
#endif
