// columns.h: passes over the rows of [rows][C], and sums over them, for batch norm
// and bias gradients, in an order that depends on the shapes and the grid alone.
//
// A block has TX threads across, V columns each, and THREADS/TX rows of them; blockIdx.x is the
// group of columns. Strips of BATCH such rows go round the blocks of blockIdx.y, so that the grid
// sweeps the tensor from one end to the other. A pass backwards then finds in L2 what the pass
// before it read last. V is 16 bytes' worth where C is a multiple of it, else 1.
#pragma once
#include "kd.h"

enum { SUM_THREADS = 512, PASS_THREADS = 256 };

// V elements as they lie in memory.
template <class T, int V> struct raw_values { typedef u32x4 type; };
template <class T> struct raw_values<T, 1> { typedef T type; };
template <class T, int V> KD_FN void unpack_values(float *v, typename raw_values<T, V>::type w) {
  if constexpr (V == 1) v[0] = kd_f(w);
  else kd_unpack<T>(v, w);
}

template <class T, int V_, int THREADS> struct columns {
  typedef typename raw_values<T, V_>::type raw;
  static const int V = V_, TX = V == 1 ? 32 : 8, TY = THREADS / TX, WIDTH = TX * V, WARPS = THREADS / 32, BATCH = 4;
  static KD_METHOD int lane() { return (int)threadIdx.x % TX; }
  static KD_METHOD int first() { return (int)blockIdx.x * WIDTH + lane() * V; } // this thread's first column

  // sweep calls f(element index, values of the arrays) for each of this thread's rows. The loads of
  // a strip come before its first f, so that they are under way together. An array may be null, and
  // f may write to the arrays where it is.
  template <bool BACKWARDS, int N, class F> static KD_METHOD void sweep(const T *const (&arrays)[N], int rows, int C, F f) {
    const int STRIP = TY * BATCH;
    int c = first(), strips = (rows + STRIP - 1) / STRIP, ty = (int)threadIdx.x / TX;
    if (c >= C) return;
    for (int j = blockIdx.y; j < strips; j += gridDim.y) {
      int r0 = (BACKWARDS ? strips - 1 - j : j) * STRIP + ty;
      raw w[BATCH][N];
      KD_UNROLL
      for (int u = 0; u < BATCH; u++)
        KD_UNROLL
        for (int i = 0; i < N; i++)
          if (arrays[i] && r0 + u * TY < rows) w[u][i] = *(const raw *)(arrays[i] + (long)(r0 + u * TY) * C + c);
      KD_UNROLL
      for (int u = 0; u < BATCH; u++)
        if (r0 + u * TY < rows) f((long)(r0 + u * TY) * C + c, w[u]);
    }
  }

  // sum adds up Q sums a column over the block's threads and writes them to
  // parts[blockIdx.y][Q][C]. The last block of a group of columns then calls done(column, sums), in
  // one thread for each column.
  template <int Q, class F> static KD_METHOD void sum(float (&v)[Q][V], int C, float *parts, uint32_t *counters, F done) {
    KD_SHARED(float, s, WARPS * Q * WIDTH);
    int t = threadIdx.x;
    KD_UNROLL
    for (int q = 0; q < Q; q++)
      KD_UNROLL
      for (int j = 0; j < V; j++) {
        float u = v[q][j];
        if (TX == 8) {
          u += kd_shfl_xor(u, 8);
          u += kd_shfl_xor(u, 16);
        }
        if (t % 32 < TX) s[(t / 32 * Q + q) * WIDTH + lane() * V + j] = u;
      }
    kd_sync();
    const int N = Q * WIDTH; // sums of a block
    int c0 = (int)blockIdx.x * WIDTH;
    for (int i = t; i < N; i += THREADS) {
      float u = 0;
      KD_UNROLL
      for (int w = 0; w < WARPS; w++) u += s[w * N + i];
      int c = c0 + i % WIDTH;
      if (c < C) parts[((long)blockIdx.y * Q + i / WIDTH) * C + c] = u;
    }
    if (!kd_last_block(counters + blockIdx.x, gridDim.y)) return;
    // The parts, by SPLIT threads a sum, then those by one.
    const int SPLIT = THREADS / N;
    static_assert(SPLIT >= 1 && SPLIT <= WARPS, "threads for the sums of a block");
    int i = t % N, c = c0 + i % WIDTH, part = t / N;
    float u = 0;
    if (c < C) {
#ifdef __CUDA__
#pragma unroll 8
#endif
      for (int p = part; p < (int)gridDim.y; p += SPLIT) u += parts[((long)p * Q + i / WIDTH) * C + c];
    }
    s[part * N + i] = u; // what it held was read before last_block's barriers
    kd_sync();
    if (t >= WIDTH || c0 + t >= C) return;
    float total[Q];
    KD_UNROLL
    for (int q = 0; q < Q; q++) {
      total[q] = 0;
      KD_UNROLL
      for (int p = 0; p < SPLIT; p++) total[q] += s[p * N + q * WIDTH + t];
    }
    done(c0 + t, total);
  }
};
