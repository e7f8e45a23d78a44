// columns.h: sums over the rows of [rows][C], for batch norm and bias gradients,
// in an order that depends on the shapes and the grid alone.
//
// A block has TX threads across, V columns each, and 512/TX rows of them;
// blockIdx.x is the group of columns, blockIdx.y a range of rows. V is 16 bytes'
// worth where C is a multiple of it, else 1.
#pragma once
#include "kd.h"

enum { COLUMN_THREADS = 512 };

template <int V_> struct columns {
  static const int V = V_, TX = V == 1 ? 32 : 8, TY = COLUMN_THREADS / TX, WIDTH = TX * V, WARPS = COLUMN_THREADS / 32;
  static KD_METHOD int lane() { return (int)threadIdx.x % TX; }
  static KD_METHOD int first() { return (int)blockIdx.x * WIDTH + lane() * V; } // this thread's first column
  // rows calls f(element index) for each of this thread's rows of the range.
  template <class F> static KD_METHOD void rows(int all, int C, F f) {
    int per = (all + (int)gridDim.y - 1) / (int)gridDim.y;
    int end = ((int)blockIdx.y + 1) * per;
    if (end > all) end = all;
    int c = first();
    if (c >= C) return;
#ifdef __CUDA__
#pragma unroll 4
#endif
    for (int r = (int)blockIdx.y * per + (int)threadIdx.x / TX; r < end; r += TY) f((long)r * C + c);
  }
  // sum adds up Q sums a column over the block's threads, writes them to
  // parts[blockIdx.y][Q][C], and, in the block that is the last of its group of
  // columns, calls done(column, sums) in one thread for each column.
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
    for (int i = t; i < N; i += COLUMN_THREADS) {
      float u = 0;
      KD_UNROLL
      for (int w = 0; w < WARPS; w++) u += s[w * N + i];
      int c = c0 + i % WIDTH;
      if (c < C) parts[((long)blockIdx.y * Q + i / WIDTH) * C + c] = u;
    }
    if (!kd_last_block(counters + blockIdx.x, gridDim.y)) return;
    // The parts, by SPLIT threads a sum, then those by one.
    const int SPLIT = COLUMN_THREADS / N;
    static_assert(SPLIT >= 1 && SPLIT <= WARPS, "threads for the sums of a block");
    int i = t % N, c = c0 + i % WIDTH, part = t / N;
    float u = 0;
    if (c < C) {
#ifdef __CUDA__
#pragma unroll 8
#endif
      for (int p = part; p < (int)gridDim.y; p += SPLIT) u += parts[((long)p * Q + i / WIDTH) * C + c];
    }
    kd_sync();
    s[part * N + i] = u;
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
