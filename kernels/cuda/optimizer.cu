// optimizer.cu: SGD with momentum over all parameters at once, and the check of
// the loss scale. The hyper-parameters are read from device memory; their places
// are those of the Hyper constants in op.go.
#include "kd.h"

enum { LR, MOMENTUM, DECAY, SCALE, SKIP, GROWTH, GRAD_SCALE };
enum { GROWTH_INTERVAL = 2000 }; // GrowthInterval in sgd.go

struct sgd_hyper { float lr, mu, decay, inv_scale; };

// One element: g = grad/scale + decay*w; m = mu*m + g; w -= lr*m.
KD_FN void sgd_step(float &w, float g, float &m, const sgd_hyper &h) {
  g = kd_fma(h.decay, w, g * h.inv_scale);
  m = kd_fma(h.mu, m, g);
  w = kd_fma(-h.lr, m, w);
}

// w, g, m: float[n]; copy: T[n], or null when there is none.
template <class T> KD_FN void sgd_all(float *w, const float *__restrict__ g, float *m, const float *hyper, T *copy, int n) {
  if (hyper[SKIP] != 0.f) return;
  sgd_hyper h = {hyper[LR], hyper[MOMENTUM], hyper[DECAY], 1.f / hyper[GRAD_SCALE]};
  int at = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
  for (int i = at; i < n / 4; i += step) {
    float a[4], b[4], c[4];
    kd_load<float, 4>(a, w + 4 * (long)i);
    kd_load<float, 4>(b, g + 4 * (long)i);
    kd_load<float, 4>(c, m + 4 * (long)i);
    KD_UNROLL
    for (int j = 0; j < 4; j++) sgd_step(a[j], b[j], c[j], h);
    kd_store<float, 4>(w + 4 * (long)i, a);
    kd_store<float, 4>(m + 4 * (long)i, c);
    if (copy) {
      if constexpr (sizeof(T) == 4) kd_store<T, 4>(copy + 4 * (long)i, a);
      else *(u32x2 *)(copy + 4 * (long)i) = u32x2{kd_pack2(a[0], a[1], T{}), kd_pack2(a[2], a[3], T{})};
    }
  }
  int i = n / 4 * 4 + at;
  if (i < n) {
    float a = w[i], c = m[i];
    sgd_step(a, g[i], c, h);
    w[i] = a;
    m[i] = c;
    if (copy) copy[i] = kd_as<T>(a);
  }
}

#define SGD(name, T)                                                                                                        \
  KD_KERNEL __launch_bounds__(256) name(float *w, const float *g, float *m, const float *hyper, T *copy, int n) {           \
    sgd_all<T>(w, g, m, hyper, copy, n);                                                                                    \
  }                                                                                                                         \
  KD_ENTRY(name)
SGD(sgd, float)
SGD(sgd_fp16, f16)
SGD(sgd_bf16, bf16)

// counters: blocks done, and whether any saw a gradient that is not finite.
KD_KERNEL __launch_bounds__(256) scale_check(const float *__restrict__ g, float *hyper, uint32_t *counters, int n) {
  const uint32_t EXP = 0x7f800000;
  int at = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
  bool bad = false;
  for (int i = at; i < n / 4; i += step) {
    u32x4 v = ((const u32x4 *)g)[i];
    KD_UNROLL
    for (int j = 0; j < 4; j++) bad |= (v[j] & EXP) == EXP;
  }
  int i = n / 4 * 4 + at;
  if (i < n) bad |= (kd_bits(g[i]) & EXP) == EXP;
  if (bad) kd_atomic_add(counters + 1, 1u);
  if (!kd_last_block(counters, gridDim.x)) return;
  if (threadIdx.x != 0) return;
  uint32_t seen = kd_atomic_add(counters + 1, 0u);
  counters[1] = 0;
  float scale = hyper[SCALE];
  hyper[GRAD_SCALE] = scale; // of these gradients, for the step that follows
  if (seen) {
    hyper[SKIP] = 1.f;
    hyper[SCALE] = scale * 0.5f;
    hyper[GROWTH] = 0.f;
    return;
  }
  hyper[SKIP] = 0.f;
  float good = hyper[GROWTH] + 1.f;
  if (good >= GROWTH_INTERVAL) {
    hyper[SCALE] = scale * 2.f;
    good = 0.f;
  }
  hyper[GROWTH] = good;
}
KD_ENTRY(scale_check)
