// elementwise.cu: zero, cast, add, ReLU backward, channel padding and the
// device-side transforms. Bound by memory: 16 bytes a thread and turn, in a loop
// that strides over the grid; the last few elements one by one.
#include "kd.h"

#define EACH(i, n) for (int i = blockIdx.x * blockDim.x + threadIdx.x, i##_n = (n), i##_step = gridDim.x * blockDim.x; i < i##_n; i += i##_step)

KD_KERNEL __launch_bounds__(256) zero(unsigned char *x, int n) {
  EACH(i, n / 16) ((u32x4 *)x)[i] = u32x4{0, 0, 0, 0};
  EACH(i, n % 16) x[n / 16 * 16 + i] = 0;
}
KD_ENTRY(zero)

// x: float[n], y: T[n]. 8 elements a turn.
template <class T> KD_FN void cast(const float *__restrict__ x, T *__restrict__ y, int n) {
  EACH(i, n / 8) {
    float v[8];
    kd_load<float, 4>(v, x + 8 * (long)i);
    kd_load<float, 4>(v + 4, x + 8 * (long)i + 4);
    kd_store<T, kd_vec<T>::n>(y + 8 * (long)i, v);
    if constexpr (kd_vec<T>::n == 4) kd_store<T, 4>(y + 8 * (long)i + 4, v + 4);
  }
  EACH(i, n % 8) y[n / 8 * 8 + i] = kd_as<T>(x[n / 8 * 8 + i]);
}

// y = a + b, then ReLU if asked; y may be a or b.
template <class T> KD_FN void add(const T *a, const T *b, T *y, int n, int relu) {
  const int V = kd_vec<T>::n;
  EACH(i, n / V) {
    float u[V], v[V];
    kd_load<T, V>(u, a + (long)i * V);
    kd_load<T, V>(v, b + (long)i * V);
    KD_UNROLL
    for (int j = 0; j < V; j++) u[j] = relu ? kd_relu(u[j] + v[j]) : u[j] + v[j];
    kd_store<T, V>(y + (long)i * V, u);
  }
  EACH(i, n % V) {
    int k = n / V * V + i;
    float v = kd_f(a[k]) + kd_f(b[k]);
    y[k] = kd_as<T>(relu ? kd_relu(v) : v);
  }
}

// dx = dy where y > 0, else 0; dx may be dy.
template <class T> KD_FN void relu_backward(const T *dy, const T *y, T *dx, int n) {
  const int V = kd_vec<T>::n;
  EACH(i, n / V) {
    float u[V], v[V];
    kd_load<T, V>(u, dy + (long)i * V);
    kd_load<T, V>(v, y + (long)i * V);
    KD_UNROLL
    for (int j = 0; j < V; j++) u[j] = v[j] > 0.f ? u[j] : 0.f;
    kd_store<T, V>(dx + (long)i * V, u);
  }
  EACH(i, n % V) {
    int k = n / V * V + i;
    dx[k] = kd_as<T>(kd_f(y[k]) > 0.f ? kd_f(dy[k]) : 0.f);
  }
}

// scramble and the keys are those of kernels/dropout.go.
KD_FN uint32_t scramble(uint32_t x) {
  x = (x ^ x >> 16) * 0x7feb352du;
  x = (x ^ x >> 15) * 0x846ca68bu;
  return x ^ x >> 16;
}
KD_FN bool kept(uint32_t i, uint32_t key, uint32_t least) { return scramble(scramble(i ^ key) + key) >> 8 >= least; }

// y = scale x where the element's hash is at least least, else 0; y may be x.
template <class T> KD_FN void dropout(const T *x, const uint32_t *noise, T *y, int n, uint32_t layer, uint32_t least, float scale) {
  const int V = kd_vec<T>::n;
  uint32_t key = scramble(scramble(scramble(noise[2] + 0x9e3779b9u * (layer + 1)) ^ noise[1]) ^ noise[0]);
  EACH(i, n / V) {
    float v[V];
    kd_load<T, V>(v, x + (long)i * V);
    KD_UNROLL
    for (int j = 0; j < V; j++) v[j] = kept(i * V + j, key, least) ? v[j] * scale : 0.f;
    kd_store<T, V>(y + (long)i * V, v);
  }
  EACH(i, n % V) {
    int k = n / V * V + i;
    y[k] = kd_as<T>(kept(k, key, least) ? kd_f(x[k]) * scale : 0.f);
  }
}

KD_KERNEL __launch_bounds__(256) next_noise(uint32_t *noise) {
  if (threadIdx.x == 0) noise[2]++; // NoiseStep
}
KD_ENTRY(next_noise)

// x: [n][t][pixels][c], y: [n][out][pixels][taps][c]: frame t of y has at tap k frame
// t + k - pad of x, or zeros.
template <class T, int V> KD_FN void stack_frames(const T *__restrict__ x, T *__restrict__ y, int n, int t, int out, int pixels, int c, int taps, int pad) {
  int cv = c / V;
  EACH(i, n * out * pixels * taps * cv) {
    int ci = i % cv * V, k = i / cv % taps, p = i / cv / taps % pixels, f = i / cv / taps / pixels;
    int from = f % out + k - pad;
    float v[V] = {};
    if ((unsigned)from < (unsigned)t) kd_load<T, V>(v, x + ((long)(f / out * t + from) * pixels + p) * c + ci);
    kd_store<T, V>(y + (long)i * V, v);
  }
}

template <class T, int V> KD_FN void stack_frames_backward(const T *__restrict__ dy, T *__restrict__ dx, int n, int t, int out, int pixels, int c, int taps, int pad) {
  int cv = c / V;
  EACH(i, n * t * pixels * cv) {
    int ci = i % cv * V, p = i / cv % pixels, f = i / cv / pixels;
    float sum[V] = {};
    for (int k = 0; k < taps; k++) {
      int to = f % t + pad - k;
      if ((unsigned)to >= (unsigned)out) continue;
      float v[V];
      kd_load<T, V>(v, dy + (((long)(f / t * out + to) * pixels + p) * taps + k) * c + ci);
      KD_UNROLL
      for (int j = 0; j < V; j++) sum[j] += v[j];
    }
    kd_store<T, V>(dx + (long)i * V, sum);
  }
}

#define FRAMES(name, T, V)                                                                                                  \
  KD_KERNEL __launch_bounds__(256) stack_frames_##name(const T *x, T *y, int n, int t, int out, int pixels, int c, int taps, int pad) { \
    stack_frames<T, V>(x, y, n, t, out, pixels, c, taps, pad);                                                              \
  }                                                                                                                         \
  KD_ENTRY(stack_frames_##name)                                                                                             \
  KD_KERNEL __launch_bounds__(256) stack_frames_backward_##name(const T *dy, T *dx, int n, int t, int out, int pixels, int c, int taps, int pad) { \
    stack_frames_backward<T, V>(dy, dx, n, t, out, pixels, c, taps, pad);                                                   \
  }                                                                                                                         \
  KD_ENTRY(stack_frames_backward_##name)

FRAMES(fp32, float, 4)
FRAMES(fp32_v1, float, 1)
FRAMES(fp16, f16, 8)
FRAMES(fp16_v1, f16, 1)
FRAMES(bf16, bf16, 8)
FRAMES(bf16_v1, bf16, 1)

// write_pixel stores c channels, and zeros up to cpad; get(j) is channel j.
template <class T, class F> KD_FN void write_pixel(T *y, int c, int cpad, F get) {
  const int V = kd_vec<T>::n;
  if (cpad % V == 0) {
    for (int j0 = 0; j0 < cpad; j0 += V) {
      float v[V];
      KD_UNROLL
      for (int j = 0; j < V; j++) v[j] = j0 + j < c ? get(j0 + j) : 0.f;
      kd_store<T, V>(y + j0, v);
    }
    return;
  }
  for (int j = 0; j < cpad; j++) y[j] = kd_as<T>(j < c ? get(j) : 0.f);
}

// x: float[rows][c], y: T[rows][cpad].
template <class T> KD_FN void pad_channels(const float *__restrict__ x, T *__restrict__ y, int rows, int c, int cpad) {
  EACH(i, rows) {
    const float *p = x + (long)i * c;
    write_pixel<T>(y + (long)i * cpad, c, cpad, [&](int j) { return p[j]; });
  }
}

// pixels: uint8[n][h][w][c], aug: int32[n][words] (dy, dx, flip, ...), y: T[n][h][w][cpad].
// One output pixel a thread and turn; padding is a zero pixel, normalised.
template <class T>
KD_FN void augment(const unsigned char *__restrict__ pixels, const int *__restrict__ aug, T *__restrict__ y, int n, int h, int w, int c, int cpad, int words,
                   const float (&mean)[4], const float (&inv)[4]) {
  EACH(i, n * h * w) {
    int col = i % w, row = i / w % h, img = i / w / h;
    const int *a = aug + (long)img * words;
    int dy = a[0], dx = a[1], flip = a[2];
    if (flip) col = w - 1 - col;
    row += dy;
    col += dx;
    bool in = (unsigned)row < (unsigned)h && (unsigned)col < (unsigned)w;
    const unsigned char *p = pixels + ((long)img * h * w + (in ? row * w + col : 0)) * c;
    write_pixel<T>(y + (long)i * cpad, c, cpad, [&](int j) {
      float v = in ? (float)p[j] * (1.f / 255.f) : 0.f;
      // Selected rather than indexed, so that the constants stay in registers.
      float m = j == 0 ? mean[0] : j == 1 ? mean[1] : j == 2 ? mean[2] : mean[3];
      float s = j == 0 ? inv[0] : j == 1 ? inv[1] : j == 2 ? inv[2] : inv[3];
      return (v - m) * s;
    });
  }
}

#define ELEMENTWISE(name, T)                                                                                                \
  KD_KERNEL __launch_bounds__(256) cast_##name(const float *x, T *y, int n) { cast<T>(x, y, n); }                           \
  KD_ENTRY(cast_##name)                                                                                                     \
  KD_KERNEL __launch_bounds__(256) add_##name(const T *a, const T *b, T *y, int n, int relu) { add<T>(a, b, y, n, relu); }  \
  KD_ENTRY(add_##name)                                                                                                      \
  KD_KERNEL __launch_bounds__(256) relu_backward_##name(const T *dy, const T *y, T *dx, int n) { relu_backward<T>(dy, y, dx, n); } \
  KD_ENTRY(relu_backward_##name)                                                                                            \
  KD_KERNEL __launch_bounds__(256) dropout_##name(const T *x, const uint32_t *noise, T *y, int n, uint32_t layer, uint32_t least, float scale) { \
    dropout<T>(x, noise, y, n, layer, least, scale);                                                                        \
  }                                                                                                                         \
  KD_ENTRY(dropout_##name)                                                                                                  \
  KD_KERNEL __launch_bounds__(256) pad_channels_##name(const float *x, T *y, int rows, int c, int cpad) {                   \
    pad_channels<T>(x, y, rows, c, cpad);                                                                                   \
  }                                                                                                                         \
  KD_ENTRY(pad_channels_##name)                                                                                             \
  KD_KERNEL __launch_bounds__(256)                                                                                          \
  augment_##name(const unsigned char *pixels, const int *aug, T *y, int n, int h, int w, int c, int cpad, int words, float m0, float m1, float m2, float m3, \
                 float s0, float s1, float s2, float s3) {                                                                  \
    augment<T>(pixels, aug, y, n, h, w, c, cpad, words, {m0, m1, m2, m3}, {s0, s1, s2, s3});                                       \
  }                                                                                                                         \
  KD_ENTRY(augment_##name)

ELEMENTWISE(fp32, float)
ELEMENTWISE(fp16, f16)
ELEMENTWISE(bf16, bf16)
