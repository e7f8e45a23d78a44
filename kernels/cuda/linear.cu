// linear.cu: y = x w^T + bias and its gradients, for the last layer: few outputs,
// so that CUDA cores keep up with memory. V is the number of elements a load
// brings: 16 bytes' worth, or 1 where In is not a multiple of that.
#include "kd.h"

enum { LINEAR_OUTS = 4, LINEAR_SLICES = 8 };

// A warp has one sample and LINEAR_OUTS outputs; its lanes share the depth.
template <class T, int V> KD_FN void linear(const T *x, const T *w, float *y, const float *bias, int n, int in, int out) {
  int lane = threadIdx.x & 31, groups = (out + LINEAR_OUTS - 1) / LINEAR_OUTS;
  int id = ((int)blockIdx.x * (int)blockDim.x + (int)threadIdx.x) >> 5;
  int row = id / groups, o0 = id % groups * LINEAR_OUTS;
  if (row >= n) return; // the whole warp
  float sum[LINEAR_OUTS] = {};
  for (int i = lane * V; i < in; i += 32 * V) {
    float u[V];
    kd_load<T, V>(u, x + (long)row * in + i);
    KD_UNROLL
    for (int o = 0; o < LINEAR_OUTS; o++) {
      if (o0 + o >= out) continue;
      float v[V];
      kd_load<T, V>(v, w + (long)(o0 + o) * in + i);
      KD_UNROLL
      for (int j = 0; j < V; j++) sum[o] = kd_fma(u[j], v[j], sum[o]);
    }
  }
  KD_UNROLL
  for (int o = 0; o < LINEAR_OUTS; o++) {
    float s = kd_warp_sum(sum[o]);
    if (lane == 0 && o0 + o < out) y[(long)row * out + o0 + o] = s + bias[o0 + o];
  }
}

// dx[n][in] = dy[n][out] w[out][in]. A thread has V inputs of a sample.
template <class T, int V> KD_FN void linear_backward_data(const float *dy, const T *w, T *dx, int n, int in, int out) {
  int cv = in / V, all = n * cv;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < all; i += gridDim.x * blockDim.x) {
    int c = i % cv * V, row = i / cv;
    float sum[V] = {};
#ifdef __CUDA__
#pragma unroll 2
#endif
    for (int o = 0; o < out; o++) {
      float g = dy[(long)row * out + o], v[V];
      kd_load<T, V>(v, w + (long)o * in + c);
      KD_UNROLL
      for (int j = 0; j < V; j++) sum[j] = kd_fma(g, v[j], sum[j]);
    }
    kd_store<T, V>(dx + (long)row * in + c, sum);
  }
}

// dw[out][in] = dy^T x, and dbias in the blocks of the first inputs. A block has
// one output and 32 inputs; LINEAR_SLICES threads share an input's samples.
template <class T> KD_FN void linear_backward_weight(const float *dy, const T *x, float *dw, float *dbias, int n, int in, int out) {
  KD_SHARED(float, s, 2 * 32 * LINEAR_SLICES);
  int lane = threadIdx.x & 31, slice = threadIdx.x >> 5, i = (int)blockIdx.x * 32 + lane, o = blockIdx.y;
  float sum = 0, all = 0;
#ifdef __CUDA__
#pragma unroll 8
#endif
  for (int r = slice; r < n; r += LINEAR_SLICES) {
    float g = dy[(long)r * out + o];
    all += g;
    if (i < in) sum = kd_fma(g, kd_f(x[(long)r * in + i]), sum);
  }
  s[threadIdx.x] = sum;
  s[32 * LINEAR_SLICES + threadIdx.x] = all;
  kd_sync();
  if (slice != 0) return;
  sum = all = 0;
  KD_UNROLL
  for (int k = 0; k < LINEAR_SLICES; k++) {
    sum += s[k * 32 + lane];
    all += s[(LINEAR_SLICES + k) * 32 + lane];
  }
  if (i < in) dw[(long)o * in + i] = sum;
  if (i == 0) dbias[o] = all;
}

#define LINEAR(name, T, V)                                                                                                  \
  KD_KERNEL __launch_bounds__(256) linear_##name(const T *x, const T *w, float *y, const float *bias, int n, int in, int out) { \
    linear<T, V>(x, w, y, bias, n, in, out);                                                                                \
  }                                                                                                                         \
  KD_ENTRY(linear_##name)                                                                                                   \
  KD_KERNEL __launch_bounds__(256) linear_backward_data_##name(const float *dy, const T *w, T *dx, int n, int in, int out) { \
    linear_backward_data<T, V>(dy, w, dx, n, in, out);                                                                      \
  }                                                                                                                         \
  KD_ENTRY(linear_backward_data_##name)
#define LINEAR_WEIGHT(name, T)                                                                                              \
  KD_KERNEL __launch_bounds__(256) linear_backward_weight_##name(const float *dy, const T *x, float *dw, float *dbias, int n, int in, int out) { \
    linear_backward_weight<T>(dy, x, dw, dbias, n, in, out);                                                                \
  }                                                                                                                         \
  KD_ENTRY(linear_backward_weight_##name)

LINEAR(fp32, float, 4)
LINEAR(fp32_v1, float, 1)
LINEAR(fp16, f16, 8)
LINEAR(fp16_v1, f16, 1)
LINEAR(bf16, bf16, 8)
LINEAR(bf16_v1, bf16, 1)
LINEAR_WEIGHT(fp32, float)
LINEAR_WEIGHT(fp16, f16)
LINEAR_WEIGHT(bf16, bf16)
