// reduce.cu: sums of parts, for convolutions whose depth is split over blocks, and
// of rows, for the bias gradient.
#include "columns.h"

enum { PART_THREADS = 256 };

// out[i] = sum over s of parts[s][i] [+ bias[i % width]] [then ReLU] [+ out[i]]. A thread has V
// elements of one slice of the parts and adds them in the order of the parts. Its block adds the
// slices in their order. slices divides PART_THREADS; n is a multiple of width, and width of V.
template <class T, int V>
KD_FN void sum_parts(const float *__restrict__ parts, T *out, const float *__restrict__ bias, int n, int width, int count, int slices, bool relu,
                     bool accumulate) {
  const int W = V < 4 ? V : 4; // floats a load brings
  KD_SHARED(f32x4, shared, PART_THREADS * V / 4);
  float *sums = (float *)shared; // [slices][across][V]
  int across = PART_THREADS / slices, x = threadIdx.x % across, slice = threadIdx.x / across;
  int begin = count * slice / slices, end = count * (slice + 1) / slices;
  for (int first = (int)blockIdx.x * across; first < n / V; first += (int)gridDim.x * across) {
    int i = (first + x) * V;
    bool live = first + x < n / V;
    float v[V] = {};
    if (live) {
#ifdef __CUDA__
      const int AHEAD = V == 8 ? 4 : 8; // parts that are loaded at a time
#pragma unroll AHEAD
#endif
      for (int s = begin; s < end; s++) {
        KD_UNROLL
        for (int j = 0; j < V; j += W) {
          float u[W];
          kd_load<float, W>(u, parts + (long)s * n + i + j);
          KD_UNROLL
          for (int e = 0; e < W; e++) v[j + e] += u[e];
        }
      }
    }
    if (slices > 1) {
      KD_UNROLL
      for (int j = 0; j < V; j++) sums[(int)threadIdx.x * V + j] = v[j];
      kd_sync();
      if (slice == 0) {
        for (int s = 1; s < slices; s++)
          KD_UNROLL
          for (int j = 0; j < V; j++) v[j] += sums[(s * across + x) * V + j];
      }
      kd_sync();
    }
    if (!live || slice) continue;
    if (bias) {
      int c = i % width;
      KD_UNROLL
      for (int j = 0; j < V; j++) v[j] += bias[c + j];
    }
    float u[V] = {};
    if (accumulate) kd_load<T, V>(u, out + i);
    KD_UNROLL
    for (int j = 0; j < V; j++) v[j] = (relu ? kd_relu(v[j]) : v[j]) + u[j];
    kd_store<T, V>(out + i, v);
  }
}

#define SUM_PARTS(name, T, V)                                                                                               \
  KD_KERNEL __launch_bounds__(PART_THREADS)                                                                                 \
  name(const float *parts, T *out, const float *bias, int n, int width, int count, int slices, int relu, int accumulate) {  \
    sum_parts<T, V>(parts, out, bias, n, width, count, slices, relu, accumulate);                                           \
  }                                                                                                                         \
  KD_ENTRY(name)
SUM_PARTS(sum_parts_fp32, float, 4)
SUM_PARTS(sum_parts_fp32_v1, float, 1)
SUM_PARTS(sum_parts_fp16, f16, 8)
SUM_PARTS(sum_parts_fp16_v1, f16, 1)
SUM_PARTS(sum_parts_bf16, bf16, 8)
SUM_PARTS(sum_parts_bf16_v1, bf16, 1)

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
