// conv_wgmma_forward.cu: conv_forward.cu's products by wgmma.
#include "conv_wgmma.h"

#ifdef KD_WGMMA
template <class L> KD_FN void forward_wgmma(const typename L::T *x, const typename L::T *w, typename L::T *y, const float *bias, float *parts, const conv &g, bool relu) {
  typedef typename L::T T;
  typedef wgmma_layout<L, true, true> Y;
  KD_DYN_SHARED(dynamic);
  unsigned char *smem = aligned_tiles(dynamic);
  block_tile at(L::BM, L::BN, g.k);
  depth_part part((g.depth() + L::BK - 1) / L::BK);
  forward_x<T, L::V, Y::A::N, L::BK> a(x, g, at.m0 + Y::A::row(), Y::A::STEP, Y::A::col(), part.begin);
  forward_w<T, L::V, Y::B::N, L::BK> b(w, g, at.n0 + Y::B::row(), Y::B::STEP, Y::B::col(), part.begin);
  float acc[L::MT][L::NT][4] = {};
  wgmma_product<L, true, true>(acc, a, b, part.tiles, kd_saddr(smem));
  int rows = g.n * g.p * g.q;
  auto row = [&](int r) { return at.m0 + r < rows ? (at.m0 + r) * g.k : -1; };
  if (parts) {
    wgmma_store_part<L>(parts + (long)blockIdx.z * rows * g.k, acc, at.n0, g.k, row);
    return;
  }
  if (bias || relu)
    each_wgmma_pair<L>(acc, [&](int, int c, float *v) {
      int k = at.n0 + c; // pairs do not straddle the last channel: there are eights of them
      if (bias && k < g.k) v[0] += bias[k], v[1] += bias[k + 1];
      if (relu) v[0] = kd_relu(v[0]), v[1] = kd_relu(v[1]);
    });
  wgmma_store<L, Y>(y, acc, at.n0, g.k, false, smem, row);
}

#define CONV_WGMMA(type, T, BM, BN, S, GM, GN, BLOCKS, U, FENCED)                                                                            \
  KD_KERNEL __launch_bounds__(GM *GN * 128, BLOCKS)                                                                                          \
  conv_forward_##type##_wgmma##BM##x##BN##x64s##S##U(const T *x, const T *w, T *y, const float *bias, float *parts, CONV_PARAMS, int relu) { \
    forward_wgmma<wgmma_tile<T, BM, BN, S, GM, GN, FENCED>>(x, w, y, bias, parts, CONV_ARGS, relu);                                          \
  }                                                                                                                                          \
  KD_ENTRY(conv_forward_##type##_wgmma##BM##x##BN##x64s##S##U)
#include "conv_wgmma_tiles.h"
#endif
