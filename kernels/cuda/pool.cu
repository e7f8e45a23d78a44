// pool.cu: max pooling and the global average. A thread has V channels of an
// output position: 16 bytes' worth, or 1 where C is not a multiple of that.
#include "kd.h"

// t frames of a clip make o; a window has deep of them, step apart. Images have one.
struct pool { int n, h, w, c, size, stride, pad, p, q, t, o, deep, step; };
#define POOL_PARAMS int gn, int gh, int gw, int gc, int size, int stride, int pad, int gp, int gq, int gt, int go, int deep, int step
#define POOL_ARGS pool{gn, gh, gw, gc, size, stride, pad, gp, gq, gt, go, deep, step}

// V bytes, packed: one access each.
template <int V> struct bytes { typedef unsigned char type; };
template <> struct bytes<4> { typedef uint32_t type; };
template <> struct bytes<8> { typedef u32x2 type; };
template <int V> KD_FN void load_bytes(unsigned char *v, const unsigned char *p) {
  typename bytes<V>::type w = *(const typename bytes<V>::type *)p;
  KD_UNROLL
  for (int j = 0; j < V; j++) {
    if constexpr (V == 8) v[j] = (unsigned char)(w[j / 4] >> j % 4 * 8);
    else v[j] = (unsigned char)(w >> j * 8);
  }
}
template <int V> KD_FN void store_bytes(unsigned char *p, const unsigned char *v) {
  uint32_t w[(V + 3) / 4] = {};
  KD_UNROLL
  for (int j = 0; j < V; j++) w[j / 4] |= (uint32_t)v[j] << j % 4 * 8;
  if constexpr (V == 8) *(u32x2 *)p = u32x2{w[0], w[1]};
  else *(typename bytes<V>::type *)p = (typename bytes<V>::type)w[0];
}

// index: uint8, the place in the window, row major, of the first maximum or of
// the last NaN.
template <class T, int V> KD_FN void maxpool(const T *x, T *y, unsigned char *index, const pool &g) {
  int cv = g.c / V, all = g.n * g.o * g.p * g.q * cv;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < all; i += gridDim.x * blockDim.x) {
    int c = i % cv * V, pos = i / cv, q = pos % g.q, p = pos / g.q % g.p, f = pos / g.q / g.p;
    int frame = f / g.o * g.t + f % g.o * g.step; // the window's first, of all clips'
    float best[V] = {};
    unsigned char where[V] = {};
    bool any = false;
    for (int d = 0; d < g.deep; d++)
      for (int r = 0; r < g.size; r++)
        for (int s = 0; s < g.size; s++) {
          int h = p * g.stride + r - g.pad, w = q * g.stride + s - g.pad;
          if ((unsigned)h >= (unsigned)g.h || (unsigned)w >= (unsigned)g.w) continue;
          float v[V];
          kd_load<T, V>(v, x + ((long)((frame + d) * g.h + h) * g.w + w) * g.c + c);
          KD_UNROLL
          for (int j = 0; j < V; j++)
            if (!any || v[j] > best[j] || v[j] != v[j]) best[j] = v[j], where[j] = (unsigned char)((d * g.size + r) * g.size + s);
          any = true;
        }
    kd_store<T, V>(y + (long)pos * g.c + c, best);
    store_bytes<V>(index + (long)pos * g.c + c, where);
  }
}

// Each element of dx sums the dy of the windows whose maximum it was: no two
// threads write one place.
template <class T, int V> KD_FN void maxpool_backward(const T *dy, const unsigned char *index, T *dx, const pool &g) {
  int cv = g.c / V, all = g.n * g.t * g.h * g.w * cv;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < all; i += gridDim.x * blockDim.x) {
    int c = i % cv * V, pos = i / cv, w = pos % g.w, h = pos / g.w % g.h, t = pos / g.w / g.h % g.t, n = pos / g.w / g.h / g.t;
    float sum[V] = {};
    // Windows p*stride - pad <= h < p*stride - pad + size.
    int o1 = t / g.step, p1 = (h + g.pad) / g.stride, q1 = (w + g.pad) / g.stride;
    for (int o = o1; o >= 0 && t - o * g.step < g.deep; o--) {
      if (o >= g.o) continue;
      for (int p = p1; p >= 0 && h + g.pad - p * g.stride < g.size; p--) {
        if (p >= g.p) continue;
        for (int q = q1; q >= 0 && w + g.pad - q * g.stride < g.size; q--) {
          if (q >= g.q) continue;
          int place = ((t - o * g.step) * g.size + h + g.pad - p * g.stride) * g.size + w + g.pad - q * g.stride;
          long at = ((long)((n * g.o + o) * g.p + p) * g.q + q) * g.c + c;
          float v[V];
          unsigned char from[V];
          kd_load<T, V>(v, dy + at);
          load_bytes<V>(from, index + at);
          KD_UNROLL
          for (int j = 0; j < V; j++)
            if (from[j] == place) sum[j] += v[j];
        }
      }
    }
    kd_store<T, V>(dx + (long)pos * g.c + c, sum);
  }
}

// x: [n][hw][c], y: [n][c].
template <class T, int V> KD_FN void avgpool(const T *x, T *y, int n, int hw, int C) {
  int cv = C / V, all = n * cv;
  float share = 1.f / (float)hw;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < all; i += gridDim.x * blockDim.x) {
    int c = i % cv * V, at = i / cv;
    float sum[V] = {};
#ifdef __CUDA__
#pragma unroll 4
#endif
    for (int p = 0; p < hw; p++) {
      float v[V];
      kd_load<T, V>(v, x + ((long)at * hw + p) * C + c);
      KD_UNROLL
      for (int j = 0; j < V; j++) sum[j] += v[j];
    }
    KD_UNROLL
    for (int j = 0; j < V; j++) sum[j] *= share;
    kd_store<T, V>(y + (long)at * C + c, sum);
  }
}

template <class T, int V> KD_FN void avgpool_backward(const T *dy, T *dx, int n, int hw, int C) {
  int cv = C / V, all = n * hw * cv;
  float share = 1.f / (float)hw;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < all; i += gridDim.x * blockDim.x) {
    int c = i % cv * V, at = i / cv;
    float v[V];
    kd_load<T, V>(v, dy + (long)(at / hw) * C + c);
    KD_UNROLL
    for (int j = 0; j < V; j++) v[j] *= share;
    kd_store<T, V>(dx + (long)at * C + c, v);
  }
}

#define POOL(name, T, V)                                                                                                    \
  KD_KERNEL __launch_bounds__(256) maxpool_##name(const T *x, T *y, unsigned char *index, POOL_PARAMS) { maxpool<T, V>(x, y, index, POOL_ARGS); } \
  KD_ENTRY(maxpool_##name)                                                                                                  \
  KD_KERNEL __launch_bounds__(256, 1) maxpool_backward_##name(const T *dy, const unsigned char *index, T *dx, POOL_PARAMS) {   \
    maxpool_backward<T, V>(dy, index, dx, POOL_ARGS);                                                                       \
  }                                                                                                                         \
  KD_ENTRY(maxpool_backward_##name)                                                                                         \
  KD_KERNEL __launch_bounds__(256, 1) avgpool_##name(const T *x, T *y, int n, int hw, int c) { avgpool<T, V>(x, y, n, hw, c); } \
  KD_ENTRY(avgpool_##name)                                                                                                  \
  KD_KERNEL __launch_bounds__(256) avgpool_backward_##name(const T *dy, T *dx, int n, int hw, int c) { avgpool_backward<T, V>(dy, dx, n, hw, c); } \
  KD_ENTRY(avgpool_backward_##name)

POOL(fp32, float, 4)
POOL(fp32_v1, float, 1)
POOL(fp16, f16, 8)
POOL(fp16_v1, f16, 1)
POOL(bf16, bf16, 8)
POOL(bf16_v1, bf16, 1)
