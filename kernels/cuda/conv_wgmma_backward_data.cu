// conv_wgmma_backward_data.cu: conv_backward_data.cu's products by wgmma.
#include "conv_wgmma.h"

#ifdef KD_WGMMA
template <class L> KD_FN void data_wgmma(const typename L::T *dy, const typename L::T *w, typename L::T *dx, float *parts, const conv &g, bool accumulate) {
  typedef typename L::T T;
  typedef wgmma_layout<L, true, false> Y;
  KD_DYN_SHARED(dynamic);
  unsigned char *smem = aligned_tiles(dynamic);
  phase f(g, blockIdx.y);
  block_tile at(L::BM, L::BN, g.c);
  depth_part part(tap_walk<L::BK>::tiles(f, g.k));
  if (at.m0 >= g.n * f.rows * f.cols || (accumulate && !parts && part.tiles == 0)) return;
  data_dy<T, L::V, Y::A::N, L::BK> a(dy, g, f, at.m0 + Y::A::row(), Y::A::STEP, Y::A::col(), part.begin);
  data_w<T, L::V, Y::B::N, L::BK> b(w, g, f, Y::B::row(), Y::B::STEP, at.n0 + Y::B::col(), part.begin);
  float acc[L::MT][L::NT][4] = {};
  wgmma_product<L, true, false>(acc, a, b, part.tiles, kd_saddr(smem));
  if (parts) {
    wgmma_store_part<L>(parts + (long)blockIdx.z * g.n * g.h * g.w * g.c, acc, at.n0, g.c, phase_row{g, f, at.m0});
    return;
  }
  wgmma_store<L, Y>(dx, acc, at.n0, g.c, accumulate, smem, phase_row{g, f, at.m0});
}

#define CONV_WGMMA(type, T, BM, BN, S, GM, GN, BLOCKS, U, FENCED)                                                                       \
  KD_KERNEL __launch_bounds__(GM *GN * 128, BLOCKS)                                                                                     \
  conv_backward_data_##type##_wgmma##BM##x##BN##x64s##S##U(const T *dy, const T *w, T *dx, float *parts, CONV_PARAMS, int accumulate) { \
    data_wgmma<wgmma_tile<T, BM, BN, S, GM, GN, FENCED>>(dy, w, dx, parts, CONV_ARGS, accumulate);                                      \
  }                                                                                                                                     \
  KD_ENTRY(conv_backward_data_##type##_wgmma##BM##x##BN##x64s##S##U)
#include "conv_wgmma_tiles.h"
#endif
