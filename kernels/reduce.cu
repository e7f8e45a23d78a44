// reduce.cu: sums of parts, for the weight gradient, and of rows, for its bias.
#include "columns.h"

// out[i] = sum over s of parts[s][i], s in order.
KD_KERNEL __launch_bounds__(256) sum_parts(const float *__restrict__ parts, float *__restrict__ out, int n, int count) {
  int at = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
  if (n % 4 == 0) {
    for (int i = at; i < n / 4; i += step) {
      f32x4 u = {0, 0, 0, 0};
#ifdef __CUDA__
#pragma unroll 8
#endif
      for (int s = 0; s < count; s++) u += *(const f32x4 *)(parts + (long)s * n + 4 * (long)i);
      *(f32x4 *)(out + 4 * (long)i) = u;
    }
    return;
  }
  for (int i = at; i < n; i += step) {
    float u = 0;
    for (int s = 0; s < count; s++) u += parts[(long)s * n + i];
    out[i] = u;
  }
}
KD_ENTRY(sum_parts)

// out[c] = sum over rows of x[rows][C].
template <class T, int V> KD_FN void sum_rows(const T *x, float *out, float *parts, uint32_t *counters, int rows, int C) {
  typedef columns<T, V, SUM_THREADS> cols;
  float v[1][V] = {};
  const T *arrays[] = {x};
  cols::template sweep<false>(arrays, rows, C, [&](long, const typename cols::raw *w) {
    float u[V];
    unpack_values<T, V>(u, w[0]);
    KD_UNROLL
    for (int j = 0; j < V; j++) v[0][j] += u[j];
  });
  cols::template sum<1>(v, C, parts, counters, [&](int c, const float *sum) { out[c] = sum[0]; });
}

#define SUM_ROWS(name, T, V)                                                                                                \
  KD_KERNEL __launch_bounds__(SUM_THREADS) name(const T *x, float *out, float *parts, uint32_t *counters, int rows, int C) { \
    sum_rows<T, V>(x, out, parts, counters, rows, C);                                                                       \
  }                                                                                                                         \
  KD_ENTRY(name)
SUM_ROWS(sum_rows_fp32, float, 4)
SUM_ROWS(sum_rows_fp32_v1, float, 1)
SUM_ROWS(sum_rows_fp16, f16, 8)
SUM_ROWS(sum_rows_fp16_v1, f16, 1)
SUM_ROWS(sum_rows_bf16, bf16, 8)
SUM_ROWS(sum_rows_bf16_v1, bf16, 1)
