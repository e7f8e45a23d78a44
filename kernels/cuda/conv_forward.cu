// conv_forward.cu: y = conv(x, w) [+ bias] [then ReLU]. With parts, each block
// writes its part of the sum there instead, and bias and ReLU are left to the
// launch that adds them up. See conv.h.
#include "conv_mma.h"
#include "conv_simt.h"

KD_FN float activate(float v, const float *bias, int k, int K, bool relu) {
  if (bias && k < K) v += bias[k];
  return relu ? kd_relu(v) : v;
}

template <class L>
KD_FN void forward_simt(const typename L::T *x, const typename L::T *w, typename L::T *y, const float *bias, float *parts, const conv &g, bool relu) {
  typedef typename L::T T;
  typedef simt_operand<L, L::BM, true> A;
  typedef simt_operand<L, L::BN, true> B;
  block_tile at(L::BM, L::BN, g.k);
  depth_part part((g.depth() + L::BK - 1) / L::BK);
  forward_x<T, L::V, A::N, L::BK> a(x, g, at.m0 + A::row(), A::STEP, A::col(), part.begin);
  forward_w<T, L::V, B::N, L::BK> b(w, g, at.n0 + B::row(), B::STEP, B::col(), part.begin);
  float acc[8][8] = {};
  product<L, true, true>(acc, a, b, part.tiles);
  int rows = g.n * g.p * g.q;
  auto row = [&](int r) { return at.m0 + r < rows ? (at.m0 + r) * g.k : -1; };
  if (parts) {
    store<L>(parts + (long)blockIdx.z * rows * g.k, acc, at.n0, g.k, false, row);
    return;
  }
  if (bias || relu)
    each_quad<L>(acc, [&](int r, int c, float *v) {
      KD_UNROLL
      for (int j = 0; j < 4; j++) v[j] = activate(v[j], bias, at.n0 + c + j, g.k, relu);
    });
  store<L>(y, acc, at.n0, g.k, false, row);
}

#define FORWARD_SIMT(type, T, BM, BN, V)                                                                                    \
  KD_KERNEL __launch_bounds__(BM *BN / 64)                                                                                  \
  conv_forward_##type##_simt##BM##x##BN##v##V(const T *x, const T *w, T *y, const float *bias, float *parts, CONV_PARAMS, int relu) { \
    forward_simt<simt_tile<T, BM, BN, V>>(x, w, y, bias, parts, CONV_ARGS, relu);                                           \
  }                                                                                                                         \
  KD_ENTRY(conv_forward_##type##_simt##BM##x##BN##v##V)
#define CONV_SIMT FORWARD_SIMT
#include "conv_tiles_simt.h"

#ifdef KD_TENSOR
template <class L>
KD_FN void forward_mma(const typename L::T *x, const typename L::T *w, typename L::T *y, const float *bias, float *parts, const conv &g, bool relu) {
  typedef typename L::T T;
  typedef mma_layout<L, true, true> Y;
  KD_DYN_SHARED(smem);
  block_tile at(L::BM, L::BN, g.k);
  depth_part part((g.depth() + L::BK - 1) / L::BK);
  forward_x<T, L::V, Y::A::N, L::BK> a(x, g, at.m0 + Y::A::row(), Y::A::STEP, Y::A::col(), part.begin);
  forward_w<T, L::V, Y::B::N, L::BK> b(w, g, at.n0 + Y::B::row(), Y::B::STEP, Y::B::col(), part.begin);
  float acc[L::MT][L::NT][4] = {};
  product<L, true, true>(acc, a, b, part.tiles, smem);
  int rows = g.n * g.p * g.q;
  auto row = [&](int r) { return at.m0 + r < rows ? (at.m0 + r) * g.k : -1; };
  if (parts) {
    store_part<L>(parts + (long)blockIdx.z * rows * g.k, acc, at.n0, g.k, smem, row);
    return;
  }
  if (bias || relu)
    each_pair<L>(acc, [&](int r, int c, float *v) {
      v[0] = activate(v[0], bias, at.n0 + c, g.k, relu);
      v[1] = activate(v[1], bias, at.n0 + c + 1, g.k, relu);
    });
  store<L, Y>(y, acc, at.n0, g.k, false, smem, row);
}

// At least one block a multiprocessor: left to itself ptxas may spill to fit more.
#define CONV_MMA(type, T, BM, BN, BK, S, WM, WN)                                                                            \
  KD_KERNEL __launch_bounds__(WM *WN * 32, MMA_BLOCKS(BM, BN, BK, S)) \
  conv_forward_##type##_mma##BM##x##BN##x##BK##s##S(const T *x, const T *w, T *y, const float *bias, float *parts, CONV_PARAMS, int relu) { \
    forward_mma<mma_tile<T, BM, BN, BK, S, WM, WN>>(x, w, y, bias, parts, CONV_ARGS, relu);                                 \
  }                                                                                                                         \
  KD_ENTRY(conv_forward_##type##_mma##BM##x##BN##x##BK##s##S)
#include "conv_tiles.h"
#endif
