// conv_wgmma_backward_weight.cu: conv_backward_weight.cu's products by wgmma.
#include "conv_wgmma.h"

#ifdef KD_WGMMA
template <class L> KD_FN void weight_wgmma(const typename L::T *x, const typename L::T *dy, float *dw, const conv &g, int per) {
  typedef typename L::T T;
  typedef wgmma_layout<L, false, false> Y;
  KD_DYN_SHARED(dynamic);
  pixel_range px(g, per);
  block_tile at(L::BM, L::BN, g.depth());
  weight_dy<T, L::V, Y::A::N, L::BK> a(dy, g, px.begin, px.end, Y::A::row(), Y::A::STEP, at.m0 + Y::A::col());
  weight_x<T, L::V, Y::B::N, L::BK> b(x, g, px.begin, px.end, Y::B::row(), Y::B::STEP, at.n0 + Y::B::col());
  float acc[L::MT][L::NT][4] = {};
  wgmma_product<L, false, false>(acc, a, b, (px.end - px.begin + L::BK - 1) / L::BK, kd_saddr(aligned_tiles(dynamic)));
  float *out = dw + (long)blockIdx.y * g.k * g.depth();
  each_wgmma_pair<L>(acc, [&](int r, int c, float *v) {
    if (at.m0 + r < g.k && at.n0 + c < g.depth()) *(f32x2 *)(out + (at.m0 + r) * g.depth() + at.n0 + c) = f32x2{v[0], v[1]};
  });
}

#define CONV_WGMMA(type, T, BM, BN, S, GM, GN, BLOCKS, U, FENCED)                                                        \
  KD_KERNEL __launch_bounds__(GM *GN * 128, BLOCKS)                                                                      \
  conv_backward_weight_##type##_wgmma##BM##x##BN##x64s##S##U(const T *x, const T *dy, float *dw, CONV_PARAMS, int per) { \
    weight_wgmma<wgmma_tile<T, BM, BN, S, GM, GN, FENCED>>(x, dy, dw, CONV_ARGS, per);                                   \
  }                                                                                                                      \
  KD_ENTRY(conv_backward_weight_##type##_wgmma##BM##x##BN##x64s##S##U)
#define CONV_TILES_WIDE // results are few rows and many columns
#include "conv_wgmma_tiles.h"
#endif
