// conv_mma.h: matrix products on tensor cores (sm_80 and later). A block computes a BM x BN tile;
// STAGES of cp.async bring its depth to shared memory in tiles of BK. A warp holds WM x WN of the
// tile in registers, in float32.
//
// Shared memory has no padding: the 16-byte chunks of a row are exchanged by an
// exclusive or with the row, so that neither the copies nor ldmatrix meet bank
// conflicts. Only the wide operands of tf32, which ldmatrix cannot transpose,
// lie in padded rows.
#pragma once
#include "conv.h"
#ifdef KD_TENSOR
#ifdef __CUDA__
#define KD_LOOP _Pragma("unroll 1")
#else
#define KD_LOOP
#endif

template <class T_, int BM_, int BN_, int BK_, int STAGES_, int WARPS_M, int WARPS_N> struct mma_tile {
  typedef T_ T;
  static const int BM = BM_, BN = BN_, BK = BK_, STAGES = STAGES_;
  static const int threads = WARPS_M * WARPS_N * 32;
  static const int WM = BM / WARPS_M, WN = BN / WARPS_N, MT = WM / 16, NT = WN / 8;
  static const int V = kd_vec<T>::n;  // elements of a chunk
  static const int STEPS = BK / V / 2; // one mma deep: two chunks
  static_assert(WM % 16 == 0 && WN % 16 == 0 && BK % (2 * V) == 0, "shape of a warp's tile");
};

// Blocks that a multiprocessor should hold, so that ptxas keeps to their share of
// the registers; where it would have to spill, one.
#define MMA_BLOCKS(BM, BN, BK, S) ((BM) * (BN) == 128 * 64 && (BK) == 32 && (S) == 4 ? 3 : 1)

// Chunk index of a chunk in a tile whose rows have CHUNKS of them.
template <int CHUNKS> KD_FN int swizzled(int row, int chunk) {
  static_assert(CHUNKS == 4 || CHUNKS % 8 == 0, "chunks of a row");
  return row * CHUNKS + (chunk ^ (CHUNKS == 4 ? (row >> 1) & 3 : row & 7));
}

// A tile of an operand in shared memory: ROWS of WIDTH elements; as many chunks
// for each of the block's threads.
template <class T, int ROWS, int WIDTH, int THREADS, bool PADDED> struct operand_tile {
  static const int V = kd_vec<T>::n, CHUNKS = WIDTH / V, STEP = THREADS / CHUNKS, N = ROWS * CHUNKS / THREADS;
  static const int PITCH = (WIDTH + 8) * (int)sizeof(T); // of padded rows
  static const int bytes = PADDED ? ROWS * PITCH : ROWS * WIDTH * (int)sizeof(T);
  static_assert(THREADS % CHUNKS == 0 && ROWS % STEP == 0, "a whole number of chunks for each thread");
  static KD_METHOD int row() { return (int)threadIdx.x / CHUNKS; }
  static KD_METHOD int col() { return (int)threadIdx.x % CHUNKS * V; }
  static KD_METHOD int offset(int row, int chunk) { return PADDED ? row * PITCH + chunk * 16 : swizzled<CHUNKS>(row, chunk) * 16; }
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
template <class L, bool DEEP_A, bool DEEP_B> struct mma_layout {
  typedef typename L::T T;
  static const bool wide32 = sizeof(T) == 4;
  typedef operand_tile<T, DEEP_A ? L::BM : L::BK, DEEP_A ? L::BK : L::BM, L::threads, !DEEP_A && wide32> A;
  typedef operand_tile<T, DEEP_B ? L::BN : L::BK, DEEP_B ? L::BK : L::BN, L::threads, !DEEP_B && wide32> B;
  static const int stage = A::bytes + B::bytes;
  static const int out_pitch = (L::BN + 8) * (int)sizeof(T); // of the results, gathered before they are stored
  static const int pipeline = L::STAGES * stage, gathered = sizeof(T) == 2 ? L::BM * out_pitch : 0;
  static const int shared = pipeline > gathered ? pipeline : gathered;
};

// Fragments of one step for 16 rows of a (fa) and 16 columns of b (fb[2][2]).
template <class X, class T, bool DEEP> KD_FN void load_a(uint32_t fa[4], kd_sptr tile, int m, int step) {
  int lane = threadIdx.x & 31;
  if constexpr (DEEP) {
    kd_ldsm(fa, tile + X::offset(m + (lane & 15), step * 2 + (lane >> 4)));
  } else if constexpr (sizeof(T) == 2) {
    kd_ldsm_t(fa, tile + X::offset(step * 16 + (lane & 7) + (lane >> 4) * 8, m / 8 + ((lane >> 3) & 1)));
  } else {
    KD_UNROLL
    for (int i = 0; i < 4; i++) {
      int k = step * 8 + (lane & 3) + (i >> 1) * 4, col = m + (lane >> 2) + (i & 1) * 8;
      fa[i] = kd_lds(tile + k * X::PITCH + col * 4);
    }
  }
}
template <class X, class T, bool DEEP> KD_FN void load_b(uint32_t fb[4], kd_sptr tile, int n, int step) {
  int lane = threadIdx.x & 31;
  if constexpr (DEEP) {
    kd_ldsm(fb, tile + X::offset(n + (lane & 7) + (lane >> 4) * 8, step * 2 + ((lane >> 3) & 1)));
  } else if constexpr (sizeof(T) == 2) {
    kd_ldsm_t(fb, tile + X::offset(step * 16 + (lane & 15), n / 8 + (lane >> 4)));
  } else {
    KD_UNROLL
    for (int i = 0; i < 4; i++) {
      int k = step * 8 + (lane & 3) + (i & 1) * 4, col = n + (lane >> 2) + (i >> 1) * 8;
      fb[i] = kd_lds(tile + k * X::PITCH + col * 4);
    }
  }
}

template <class L, class Y, bool DEEP_A, bool DEEP_B>
KD_FN void load_step(uint32_t (&fa)[L::MT][4], uint32_t (&fb)[L::NT / 2][4], kd_sptr stage, int wm, int wn, int step) {
  typedef typename L::T T;
  KD_UNROLL
  for (int i = 0; i < L::MT; i++) load_a<typename Y::A, T, DEEP_A>(fa[i], stage, wm + i * 16, step);
  KD_UNROLL
  for (int j = 0; j < L::NT / 2; j++) load_b<typename Y::B, T, DEEP_B>(fb[j], stage + Y::A::bytes, wn + j * 16, step);
  if constexpr (sizeof(T) == 4) {
    KD_UNROLL
    for (int i = 0; i < L::MT; i++)
      KD_UNROLL
      for (int e = 0; e < 4; e++) fa[i][e] = kd_to_tf32(fa[i][e]);
    KD_UNROLL
    for (int j = 0; j < L::NT / 2; j++)
      KD_UNROLL
      for (int e = 0; e < 4; e++) fb[j][e] = kd_to_tf32(fb[j][e]);
  }
}

// product adds a b to acc, over the given number of depth tiles. On return all
// copies have arrived and all threads are done with the shared memory.
template <class L, bool DEEP_A, bool DEEP_B, class OA, class OB>
KD_FN void product(float (&acc)[L::MT][L::NT][4], OA &a, OB &b, int tiles, unsigned char *smem) {
  typedef mma_layout<L, DEEP_A, DEEP_B> Y;
  typedef typename L::T T;
  int warp = threadIdx.x >> 5, wm = warp % (L::BM / L::WM) * L::WM, wn = warp / (L::BM / L::WM) * L::WN;
  kd_sptr base = kd_saddr(smem);
  // Behind the last tile zeros come, unread: cheaper than a branch, around which
  // nothing can be scheduled.
  auto fetch = [&](int stage, bool live) {
    Y::A::copy(base + stage * Y::stage, a, live);
    Y::B::copy(base + stage * Y::stage + Y::A::bytes, b, live);
    kd_cp_commit();
    a.next();
    b.next();
  };
  KD_UNROLL
  for (int s = 0; s < L::STAGES - 1; s++) fetch(s, s < tiles);
  int at = 0, free = L::STAGES - 1;
  for (int t = 0; t < tiles; t++) {
    kd_cp_wait<L::STAGES - 2>();
    kd_sync(); // tile t is here, and tile t-1, whose place is next to be filled, was used
    kd_sptr stage = base + at * Y::stage;
    uint32_t fa[2][L::MT][4], fb[2][L::NT / 2][4];
    load_step<L, Y, DEEP_A, DEEP_B>(fa[0], fb[0], stage, wm, wn, 0);
    KD_UNROLL
    for (int k = 0; k < L::STEPS; k++) {
      if (k + 1 < L::STEPS) load_step<L, Y, DEEP_A, DEEP_B>(fa[(k + 1) & 1], fb[(k + 1) & 1], stage, wm, wn, k + 1);
      if (k == 0) fetch(free, t + L::STAGES - 1 < tiles);
      KD_UNROLL
      for (int i = 0; i < L::MT; i++)
        KD_UNROLL
        for (int j = 0; j < L::NT; j++) kd_mma(acc[i][j], fa[k & 1][i], &fb[k & 1][j >> 1][(j & 1) * 2], T{});
    }
    if (++at == L::STAGES) at = 0;
    if (++free == L::STAGES) free = 0;
  }
  kd_cp_wait<0>();
  kd_sync();
}

// each_pair calls f(row, column, pair) for each two neighbouring results of a
// thread, within the block's tile.
template <class L, class F> KD_FN void each_pair(float (&acc)[L::MT][L::NT][4], F f) {
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  int wm = warp % (L::BM / L::WM) * L::WM + (lane >> 2), wn = warp / (L::BM / L::WM) * L::WN + (lane & 3) * 2;
  KD_UNROLL
  for (int i = 0; i < L::MT; i++)
    KD_UNROLL
    for (int j = 0; j < L::NT; j++) {
      f(wm + i * 16, wn + j * 8, &acc[i][j][0]);
      f(wm + i * 16 + 8, wn + j * 8, &acc[i][j][2]);
    }
}

// store_part writes the block's tile in float32: row r goes to out + at(r)
// (nowhere if negative), columns n0 on below width, which is a multiple of 4. It
// passes through shared memory, 16 rows of each warp at a time: 16 bytes go out at
// a time, and few addresses are in registers at once.
template <class L, class F> KD_FN void store_part(float *out, float (&acc)[L::MT][L::NT][4], int n0, int width, unsigned char *smem, F at) {
  const int ROWS = L::BM / L::MT, PITCH = L::BN + 8, CHUNKS = L::BN / 4;
  static_assert(ROWS * PITCH * 4 <= L::STAGES * (L::BM + L::BN) * L::BK * (int)sizeof(typename L::T), "room");
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, c = (int)threadIdx.x % CHUNKS * 4;
  float *s = (float *)smem;
  float *own = s + (warp % (L::BM / L::WM) * 16 + (lane >> 2)) * PITCH + warp / (L::BM / L::WM) * L::WN + (lane & 3) * 2;
  KD_UNROLL
  for (int i = 0; i < L::MT; i++) {
    KD_UNROLL
    for (int j = 0; j < L::NT; j++) {
      *(f32x2 *)(own + j * 8) = f32x2{acc[i][j][0], acc[i][j][1]};
      *(f32x2 *)(own + 8 * PITCH + j * 8) = f32x2{acc[i][j][2], acc[i][j][3]};
    }
    kd_sync();
    KD_LOOP
    for (int r = (int)threadIdx.x / CHUNKS; r < ROWS; r += L::threads / CHUNKS) {
      int to = at(r / 16 * L::WM + i * 16 + r % 16);
      if (to >= 0 && n0 + c < width) *(f32x4 *)(out + to + n0 + c) = *(const f32x4 *)(s + r * PITCH + c);
    }
    if (i + 1 < L::MT) kd_sync();
  }
}

// store_gathered writes 16-bit results that all threads have put in shared memory,
// in rows of Y::out_pitch bytes, as store does.
template <class L, class Y, class F>
KD_FN void store_gathered(typename L::T *out, int n0, int width, bool accumulate, const unsigned char *smem, F at) {
  typedef typename L::T T;
  kd_sync();
  const int CHUNKS = L::BN / L::V, STEP = L::threads / CHUNKS;
  int c = (int)threadIdx.x % CHUNKS * L::V;
  for (int i = 0; i < L::BM / STEP; i++) {
    int r = (int)threadIdx.x / CHUNKS + i * STEP, to = at(r);
    if (to < 0 || n0 + c >= width) continue;
    u32x4 w = *(const u32x4 *)(smem + r * Y::out_pitch + c * 2);
    u32x4 *p = (u32x4 *)(out + to + n0 + c);
    if (accumulate) {
      float u[L::V], v[L::V];
      kd_unpack<T>(u, w);
      kd_unpack<T>(v, *p);
      KD_UNROLL
      for (int e = 0; e < L::V; e++) u[e] += v[e];
      w = kd_pack<T>(u);
    }
    *p = w;
  }
}

// store writes the block's tile: row r goes to out + at(r) (nowhere if negative),
// columns n0 on below width, which is a multiple of V. With accumulate it adds.
// 16-bit results pass through shared memory, so that 16 bytes go out at a time.
template <class L, class Y, class F>
KD_FN void store(typename L::T *out, float (&acc)[L::MT][L::NT][4], int n0, int width, bool accumulate, unsigned char *smem, F at) {
  typedef typename L::T T;
  if constexpr (sizeof(T) == 4) {
    each_pair<L>(acc, [&](int r, int c, float *v) {
      int to = at(r);
      if (to < 0 || n0 + c >= width) return;
      f32x2 *p = (f32x2 *)(out + to + n0 + c);
      f32x2 u = {v[0], v[1]};
      if (accumulate) u += *p;
      *p = u;
    });
  } else {
    each_pair<L>(acc, [&](int r, int c, float *v) { *(uint32_t *)(smem + r * Y::out_pitch + c * 2) = kd_pack2(v[0], v[1], T{}); });
    store_gathered<L, Y>(out, n0, width, accumulate, smem, at);
  }
}

#endif
