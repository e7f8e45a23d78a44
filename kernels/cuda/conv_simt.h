// conv_simt.h: matrix products on CUDA cores, for every GPU, type and shape. A block computes a BM
// x BN tile, and a thread 8 x 8 of it in float32. The depth comes in tiles of BK by way of
// registers, into two shared buffers in turn.
//
// V is the number of elements a load brings: 4, or 1 where the channels are not a
// multiple of 4.
#pragma once
#include "conv.h"

template <class T_, int BM_, int BN_, int V_> struct simt_tile {
  typedef T_ T;
  static const int BM = BM_, BN = BN_, BK = 8, V = V_;
  static const int threads = BM / 8 * (BN / 8);
};

// V consecutive elements as float; zeros when !ok.
template <class T, int V> KD_FN void load_values(float *v, const T *p, bool ok) {
  if constexpr (V == 1) {
    v[0] = ok ? kd_f(*p) : 0.f;
  } else if constexpr (sizeof(T) == 4) {
    f32x4 u = ok ? *(const f32x4 *)p : f32x4{0, 0, 0, 0};
    for (int j = 0; j < 4; j++) v[j] = u[j];
  } else {
    u32x2 u = ok ? *(const u32x2 *)p : u32x2{0, 0};
    v[0] = kd_lo(u[0], T{}), v[1] = kd_hi(u[0], T{}), v[2] = kd_lo(u[1], T{}), v[3] = kd_hi(u[1], T{});
  }
}
template <class T, int V> KD_FN void store_values(T *p, const float *v) {
  if constexpr (V == 1) *p = kd_as<T>(v[0]);
  else if constexpr (sizeof(T) == 4) *(f32x4 *)p = f32x4{v[0], v[1], v[2], v[3]};
  else *(u32x2 *)p = u32x2{kd_pack2(v[0], v[1], T{}), kd_pack2(v[2], v[3], T{})};
}

// One operand: WIDTH positions by BK of depth, in shared memory as [BK][PITCH].
template <class L, int WIDTH, bool DEEP> struct simt_operand {
  static const int V = L::V, PITCH = WIDTH + 4;
  static const int COLS = (DEEP ? L::BK : WIDTH) / V, STEP = L::threads / COLS;
  static const int N = (DEEP ? WIDTH : L::BK) / STEP;
  static const int size = L::BK * PITCH;
  static_assert(L::threads % COLS == 0 && N * STEP == (DEEP ? WIDTH : L::BK), "a whole number of loads for each thread");
  static KD_METHOD int row() { return (int)threadIdx.x / COLS; }
  static KD_METHOD int col() { return (int)threadIdx.x % COLS * V; }
  template <class O> static KD_METHOD void load(float (&v)[N][V], const O &o) {
    KD_UNROLL
    for (int i = 0; i < N; i++) {
      bool ok;
      const typename L::T *p = o.at(i, ok);
      load_values<typename L::T, V>(v[i], p, ok);
    }
  }
  static KD_METHOD void put(float *s, const float (&v)[N][V]) {
    KD_UNROLL
    for (int i = 0; i < N; i++) {
      int r = row() + i * STEP;
      if constexpr (DEEP) {
        KD_UNROLL
        for (int j = 0; j < V; j++) s[(col() + j) * PITCH + r] = v[i][j];
      } else if constexpr (V == 4) {
        *(f32x4 *)(s + r * PITCH + col()) = f32x4{v[i][0], v[i][1], v[i][2], v[i][3]};
      } else {
        s[r * PITCH + col()] = v[i][0];
      }
    }
  }
};

// product adds a b to acc[8][8]: rows ty*4 + {0..3} of each half of BM, columns
// likewise, where ty, tx = threadIdx.x / (BN/8), % (BN/8).
template <class L, bool DEEP_A, bool DEEP_B, class OA, class OB> KD_FN void product(float (&acc)[8][8], OA &a, OB &b, int tiles) {
  typedef simt_operand<L, L::BM, DEEP_A> A;
  typedef simt_operand<L, L::BN, DEEP_B> B;
  KD_SHARED(float, sa, 2 * A::size);
  KD_SHARED(float, sb, 2 * B::size);
  float va[A::N][L::V], vb[B::N][L::V];
  int ty = threadIdx.x / (L::BN / 8), tx = threadIdx.x % (L::BN / 8);
  auto fetch = [&] {
    A::load(va, a);
    B::load(vb, b);
    a.next();
    b.next();
  };
  auto put = [&](int buf) {
    A::put(sa + buf * A::size, va);
    B::put(sb + buf * B::size, vb);
  };
  if (tiles == 0) return;
  fetch();
  put(0);
  kd_sync();
  for (int t = 0; t < tiles; t++) {
    if (t + 1 < tiles) fetch();
    const float *pa = sa + (t & 1) * A::size + ty * 4, *pb = sb + (t & 1) * B::size + tx * 4;
    KD_UNROLL
    for (int k = 0; k < L::BK; k++) {
      f32x4 u0 = *(const f32x4 *)(pa + k * A::PITCH), u1 = *(const f32x4 *)(pa + k * A::PITCH + L::BM / 2);
      f32x4 w0 = *(const f32x4 *)(pb + k * B::PITCH), w1 = *(const f32x4 *)(pb + k * B::PITCH + L::BN / 2);
      KD_UNROLL
      for (int i = 0; i < 4; i++)
        KD_UNROLL
        for (int j = 0; j < 4; j++) {
          acc[i][j] = kd_fma(u0[i], w0[j], acc[i][j]);
          acc[i][j + 4] = kd_fma(u0[i], w1[j], acc[i][j + 4]);
          acc[i + 4][j] = kd_fma(u1[i], w0[j], acc[i + 4][j]);
          acc[i + 4][j + 4] = kd_fma(u1[i], w1[j], acc[i + 4][j + 4]);
        }
    }
    if (t + 1 < tiles) put((t + 1) & 1);
    kd_sync();
  }
}

// each_quad calls f(row, column, values) for each four neighbouring results of a
// thread, within the block's tile.
template <class L, class F> KD_FN void each_quad(float (&acc)[8][8], F f) {
  int ty = threadIdx.x / (L::BN / 8), tx = threadIdx.x % (L::BN / 8);
  KD_UNROLL
  for (int i = 0; i < 8; i++)
    KD_UNROLL
    for (int j = 0; j < 2; j++) f(ty * 4 + i % 4 + i / 4 * (L::BM / 2), tx * 4 + j * (L::BN / 2), &acc[i][j * 4]);
}

// store writes the block's tile, as in conv_mma.h; width may be anything when V is 1.
template <class L, class T, class F> KD_FN void store(T *out, float (&acc)[8][8], int n0, int width, bool accumulate, F at) {
  each_quad<L>(acc, [&](int r, int c, float *v) {
    int to = at(r);
    if (to < 0) return;
    KD_UNROLL
    for (int j = 0; j < 4; j += L::V) {
      if (n0 + c + j >= width) continue;
      T *p = out + to + n0 + c + j;
      if (accumulate) {
        float u[L::V];
        load_values<T, L::V>(u, p, true);
        KD_UNROLL
        for (int e = 0; e < L::V; e++) v[j + e] += u[e];
      }
      store_values<T, L::V>(p, v + j);
    }
  });
}
