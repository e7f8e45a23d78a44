// conv_wgmma.h: matrix products on Hopper's tensor cores by wgmma, which reads both operands from
// shared memory. A block computes a BM x BN tile, and a warpgroup WM x WN of it in slices of 64
// rows. cp.async brings the depth in tiles of 64 elements (128 bytes). The operands are gathered as
// for mma.sync (conv.h).
//
// A tile lies in shared memory as one of the canonical layouts with a swizzle of 128 bytes. Its
// rows have 128 bytes, and eight of them begin at a multiple of 1024. The 16-byte chunks of a row
// are exchanged by an exclusive or with the row.
//
//   deep (K-major)    a row is 64 elements of depth, of one of the tile's rows
//   wide (MN-major)   a row is 64 neighbouring columns at one depth; after the
//                     tile's 64 depths comes the next 64 columns
//
// What descriptors and layouts mean, from three sources that agree:
// - PTX ISA manual 8.x, "Asynchronous Warpgroup Level Matrix Shared Memory Layout":
//   strides, the swizzle's 8x8 atoms of 16 bytes, the descriptor's fields.
// - CUTLASS, include/cute/arch/mma_sm90_desc.hpp (fields) and
//   include/cute/atom/mma_traits_sm90_gmma.hpp (canonical layouts in the comment
//   before make_gmma_desc): with T elements in 16 bytes,
//     K-major   Swizzle<3,4,3> of ((8,m),(T,2)) : ((8T,SBO),(1,T))
//     MN-major  Swizzle<3,4,3> of ((T,8,m),(8,k)) : ((1,T,LBO),(8T,SBO))
// - ThunderKittens, include/ops/group/wgmma/base/base.cuh: SBO 1024 for both; LBO
//   of a transposed tile the bytes of 64 columns; 16 elements of depth further on
//   are 32 bytes (K-major) or 2048 bytes (MN-major) in the start address.
#pragma once
#include "conv_mma.h"
#ifdef KD_WGMMA

// FENCED is false of an experiment alone: wgmma_product without its proxy fence.
template <class T_, int BM_, int BN_, int STAGES_, int GROUPS_M, int GROUPS_N, bool FENCED_ = true> struct wgmma_tile {
  typedef T_ T;
  static const bool FENCED = FENCED_;
  static const int BM = BM_, BN = BN_, BK = 64, STAGES = STAGES_;
  static const int threads = GROUPS_M * GROUPS_N * 128;
  static const int WM = BM / GROUPS_M, WN = BN / GROUPS_N, MT = WM / 64, NT = WN / 8;
  static const int V = kd_vec<T>::n;  // elements of a chunk
  static_assert(sizeof(T) == 2 && WM % 64 == 0 && WN % 64 == 0 && STAGES >= 3, "shape of a warpgroup's tile");
};

enum { WGMMA_ROW = 128, WGMMA_ATOM = 8 * WGMMA_ROW }; // bytes of a row, and of eight

// A tile of an operand in shared memory: ROWS of WIDTH elements, in columns of 64;
// as many chunks for each of the block's threads.
template <class T, int ROWS, int WIDTH, int THREADS> struct wgmma_operand {
  static const int V = kd_vec<T>::n, CHUNKS = WIDTH / V, STEP = THREADS / CHUNKS, N = ROWS * CHUNKS / THREADS;
  static const int column = ROWS * WGMMA_ROW; // bytes of 64 columns
  static const int bytes = WIDTH / 64 * column;
  static_assert(THREADS % CHUNKS == 0 && ROWS % STEP == 0 && ROWS % 8 == 0 && WIDTH % 64 == 0, "a whole number of chunks for each thread");
  static KD_METHOD int row() { return (int)threadIdx.x / CHUNKS; }
  static KD_METHOD int col() { return (int)threadIdx.x % CHUNKS * V; }
  static KD_METHOD int offset(int row, int chunk) { return chunk / 8 * column + row * WGMMA_ROW + ((chunk ^ row) & 7) * 16; }
  // copy starts the copies of the tile that o stands at to shared memory at s;
  // zeros when the tile is not live.
  template <class O> static KD_METHOD void copy(kd_sptr s, const O &o, bool live) {
    KD_UNROLL
    for (int i = 0; i < N; i++) {
      bool ok;
      const T *p = o.at(i, ok);
      kd_cp16<O::cached>(s + offset(row() + i * STEP, (int)threadIdx.x % CHUNKS), p, ok & live);
    }
  }
};

// The layout of both operands of a tile. DEEP: elements consecutive in depth.
template <class L, bool DEEP_A, bool DEEP_B> struct wgmma_layout {
  typedef typename L::T T;
  typedef wgmma_operand<T, DEEP_A ? L::BM : L::BK, DEEP_A ? L::BK : L::BM, L::threads> A;
  typedef wgmma_operand<T, DEEP_B ? L::BN : L::BK, DEEP_B ? L::BK : L::BN, L::threads> B;
  static const int stage = A::bytes + B::bytes;
  static const int out_pitch = (L::BN + 8) * (int)sizeof(T); // of the results, gathered before they are stored
  static const int pipeline = L::STAGES * stage, gathered = L::BM * out_pitch;
  static const int shared = (pipeline > gathered ? pipeline : gathered) + WGMMA_ATOM; // to align the first tile by
};

// aligned_tiles is where the first tile begins: the launch's dynamic shared memory
// is aligned to 16 bytes by promise, the swizzle's pattern to 1024.
KD_FN unsigned char *aligned_tiles(unsigned char *smem) { return smem + (-kd_window(kd_saddr(smem)) & (WGMMA_ATOM - 1)); }

// descriptor of an operand whose tile lies at s; the base offset (bits 49 to 51) is
// zero, for tiles begin where the swizzle's pattern does. The bytes from 64 columns
// to the next matter for wide operands alone.
template <bool DEEP> KD_FN uint64_t descriptor(kd_sptr s, int column) {
  const uint64_t swizzle_128 = 1ull << 62;
  return (uint64_t)(kd_window(s) >> 4) | (uint64_t)((DEEP ? 16 : column) >> 4) << 16 | (uint64_t)(WGMMA_ATOM >> 4) << 32 | swizzle_128;
}

// wgmma_product adds a b to acc, over the given number of depth tiles. On return
// all copies have arrived and all threads are done with the shared memory at s.
//
// Two products are under way at any time. While that of tile t runs, the threads meet at the
// barrier and give the tensor cores tile t+1. So the tensor cores do not wait for the barrier. The
// barrier of tile t says to all - that tile t is there: each thread waited for its copies and
// passed them through
//     a proxy fence (wgmma reads by the asynchronous proxy, cp.async writes by the
//     generic one);
//   - that no warp reads tile t-2 any more: each waited for its product, and left
//     that of t-1 under way. So the place of t-2 is the next to be filled, with tile
//     t-2 + STAGES, whose copies have STAGES-2 products' time to arrive.
// The accumulators belong to the tensor cores until the last wait. A fence before
// the products of a tile costs nothing, and ptxas wants it.
template <class L, bool DEEP_A, bool DEEP_B, class OA, class OB>
KD_FN void wgmma_product(float (&acc)[L::MT][L::NT][4], OA &a, OB &b, int tiles, kd_sptr s) {
  typedef wgmma_layout<L, DEEP_A, DEEP_B> Y;
  typedef typename L::T T;
  const int step_a = DEEP_A ? 32 : 2 * WGMMA_ATOM, step_b = DEEP_B ? 32 : 2 * WGMMA_ATOM; // bytes of 16 elements of depth
  int group = kd_uniform((int)threadIdx.x >> 7), wm = group % (L::BM / L::WM) * L::WM, wn = group / (L::BM / L::WM) * L::WN;
  // 64 rows on, or 64 columns, are as many bytes in both layouts when the other
  // dimension is 64; a wide tile's columns are 64 deep.
  uint64_t da = descriptor<DEEP_A>(s + wm * WGMMA_ROW, Y::A::column), db = descriptor<DEEP_B>(s + Y::A::bytes + wn * WGMMA_ROW, Y::B::column);
  // Behind the last tile zeros come, unread: cheaper than a branch.
  auto fetch = [&](int stage, bool live) {
    Y::A::copy(s + stage * Y::stage, a, live);
    Y::B::copy(s + stage * Y::stage + Y::A::bytes, b, live);
    kd_cp_commit();
    a.next();
    b.next();
  };
  KD_UNROLL
  for (int t = 0; t < L::STAGES - 2; t++) fetch(t, t < tiles);
  KD_UNROLL
  for (int i = 0; i < L::MT; i++) kd_wgmma_touched(acc[i]);
  int at = 0, free = L::STAGES - 2;
  for (int t = 0; t < tiles; t++) {
    kd_cp_wait<L::STAGES - 3>();
    if constexpr (L::FENCED) kd_proxy_fence();
    kd_wgmma_wait<1>();
    kd_sync();
    kd_wgmma_fence();
    uint64_t stage = (uint64_t)(at * Y::stage >> 4); // no carry: shared memory ends below 2^18
    KD_UNROLL
    for (int k = 0; k < L::BK / 16; k++)
      KD_UNROLL
      for (int i = 0; i < L::MT; i++)
        kd_wgmma<!DEEP_A, !DEEP_B>(acc[i], da + stage + ((i * 64 * WGMMA_ROW + k * step_a) >> 4), db + stage + (k * step_b >> 4), T{});
    kd_wgmma_commit();
    fetch(free, t + L::STAGES - 2 < tiles);
    if (++at == L::STAGES) at = 0;
    if (++free == L::STAGES) free = 0;
  }
  kd_wgmma_wait<0>();
  KD_UNROLL
  for (int i = 0; i < L::MT; i++) kd_wgmma_touched(acc[i]);
  kd_cp_wait<0>();
  kd_sync();
}

// The row and column, within the block's tile, of a thread's first result. A warp has
// 16 rows of each slice of 64, laid out as mma.sync's results are (PTX ISA manual,
// wgmma's register fragments).
template <class L> struct wgmma_place {
  int row, column;
  KD_METHOD wgmma_place() {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, group = warp >> 2;
    row = group % (L::BM / L::WM) * L::WM + (warp & 3) * 16 + (lane >> 2);
    column = group / (L::BM / L::WM) * L::WN + (lane & 3) * 2;
  }
};

// each_wgmma_pair calls f(row, column, pair) for each two neighbouring results of a
// thread, within the block's tile.
template <class L, class F> KD_FN void each_wgmma_pair(float (&acc)[L::MT][L::NT][4], F f) {
  wgmma_place<L> own;
  KD_UNROLL
  for (int i = 0; i < L::MT; i++)
    KD_UNROLL
    for (int j = 0; j < L::NT; j++) {
      f(own.row + i * 64, own.column + j * 8, &acc[i][j][0]);
      f(own.row + i * 64 + 8, own.column + j * 8, &acc[i][j][2]);
    }
}

// wgmma_store_part is store_part of conv_mma.h, without the way through shared memory. The four
// lanes of a row write 32 bytes of it together, which are whole sectors. A thread has at most four
// rows.
template <class L, class F> KD_FN void wgmma_store_part(float *out, float (&acc)[L::MT][L::NT][4], int n0, int width, F at) {
  wgmma_place<L> own;
  KD_UNROLL
  for (int i = 0; i < 2 * L::MT; i++) {
    int to = at(own.row + i / 2 * 64 + i % 2 * 8);
    if (to < 0) continue;
    float *p = out + to + n0 + own.column;
    KD_UNROLL
    for (int j = 0; j < L::NT; j++)
      if (n0 + own.column + j * 8 < width) *(f32x2 *)(p + j * 8) = f32x2{acc[i / 2][j][i % 2 * 2], acc[i / 2][j][i % 2 * 2 + 1]};
  }
}

// wgmma_store is store of conv_mma.h for the results of wgmma_product.
template <class L, class Y, class F>
KD_FN void wgmma_store(typename L::T *out, float (&acc)[L::MT][L::NT][4], int n0, int width, bool accumulate, unsigned char *smem, F at) {
  typedef typename L::T T;
  each_wgmma_pair<L>(acc, [&](int r, int c, float *v) { *(uint32_t *)(smem + r * Y::out_pitch + c * 2) = kd_pack2(v[0], v[1], T{}); });
  store_gathered<L, Y>(out, n0, width, accumulate, smem, at);
}

#endif
