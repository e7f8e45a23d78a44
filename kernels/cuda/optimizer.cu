// optimizer.cu: the optimizers, each over all parameters at once, and the check of the
// loss scale. The hyper-parameters are read from device memory; their places are those
// of the Hyper constants in kernels/optimizer.go, the formulas those of kernels/rule_*.go.
#include "kd.h"

enum { LR, MOMENTUM, DECAY, SCALE, SKIP, GROWTH, GRAD_SCALE, STEP, FILLED1, FILLED2, BATCHES, FRESH, EPS, LR_DECAY };
enum { GROWTH_INTERVAL = 2000 }; // GrowthInterval in kernels/optimizer.go

// What an update computes with: hyper-parameters, those that count of this update.
struct settings { float lr, mu, inv_scale, step, filled1, filled2, fresh, eps, lr_decay; };

KD_FN settings settings_of(const float *hyper, bool counts) {
  settings h = {hyper[LR], hyper[MOMENTUM], 1.f / (hyper[GRAD_SCALE] * hyper[BATCHES]), hyper[STEP], hyper[FILLED1], hyper[FILLED2],
                hyper[FRESH], hyper[EPS], hyper[LR_DECAY]};
  if (counts) {
    h.step += 1.f;
    h.filled1 += (1.f - h.filled1) * (1.f - h.mu);
    h.filled2 += (1.f - h.filled2) * h.fresh;
  }
  return h;
}

// A rule updates one element w from gradient g, which has no decay in it yet. It has as many of the
// slots a and b as it says.
struct sgd {
  static const int slots = 0;
  static const bool counts = false;
  static KD_METHOD void step(float &w, float g, float &, float &, float decay, const settings &h) { w = kd_fma(-h.lr, kd_fma(decay, w, g), w); }
};
struct momentum {
  static const int slots = 1;
  static const bool counts = false;
  static KD_METHOD void step(float &w, float g, float &m, float &, float decay, const settings &h) {
    m = kd_fma(h.mu, m, kd_fma(decay, w, g));
    w = kd_fma(-h.lr, m, w);
  }
};
struct nesterov {
  static const int slots = 1;
  static const bool counts = false;
  static KD_METHOD void step(float &w, float g, float &m, float &, float decay, const settings &h) {
    g = kd_fma(decay, w, g);
    m = kd_fma(h.mu, m, g);
    w = kd_fma(-h.lr, kd_fma(h.mu, m, g), w);
  }
};
struct adagrad {
  static const int slots = 1;
  static const bool counts = true;
  static KD_METHOD void step(float &w, float g, float &sum, float &, float decay, const settings &h) {
    g = kd_fma(decay, w, g);
    sum = kd_fma(g, g, sum);
    float lr = h.lr / kd_fma(h.step - 1.f, h.lr_decay, 1.f);
    w -= lr * g / (kd_sqrt(sum) + h.eps);
  }
};
struct adadelta {
  static const int slots = 2;
  static const bool counts = false;
  static KD_METHOD void step(float &w, float g, float &square, float &acc, float decay, const settings &h) {
    g = kd_fma(decay, w, g);
    square = kd_fma(kd_fma(g, g, -square), h.fresh, square);
    float delta = kd_sqrt(acc + h.eps) / kd_sqrt(square + h.eps) * g;
    acc = kd_fma(kd_fma(delta, delta, -acc), h.fresh, acc);
    w = kd_fma(-h.lr, delta, w);
  }
};
struct adam {
  static const int slots = 2;
  static const bool counts = true;
  static KD_METHOD void step(float &w, float g, float &avg, float &square, float decay, const settings &h) {
    g = kd_fma(decay, w, g);
    avg = kd_fma(g - avg, 1.f - h.mu, avg);
    square = kd_fma(kd_fma(g, g, -square), h.fresh, square);
    w -= h.lr / h.filled1 * avg / (kd_sqrt(square / h.filled2) + h.eps);
  }
};
struct adamw {
  static const int slots = 2;
  static const bool counts = true;
  static KD_METHOD void step(float &w, float g, float &avg, float &square, float decay, const settings &h) {
    w = kd_fma(-h.lr * decay, w, w);
    adam::step(w, g, avg, square, 0.f, h);
  }
};

// w, g, a, b: float[n], a and b null where the rule R has no such slot; copy: T[n], or
// null when there is none. Weight decay is for the first `decayed` elements.
// counters: blocks done.
template <class R, class T>
KD_FN void optimize(float *w, const float *__restrict__ g, float *a, float *b, float *hyper, T *copy, uint32_t *counters, int n, int decayed) {
  if (hyper[SKIP] != 0.f) return;
  settings h = settings_of(hyper, R::counts);
  float decay = hyper[DECAY];
  int at = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
  for (int i = at; i < n / 4; i += step) {
    float v[4], d[4], s[4] = {}, t[4] = {};
    kd_load<float, 4>(v, w + 4 * (long)i);
    kd_load<float, 4>(d, g + 4 * (long)i);
    if (R::slots > 0) kd_load<float, 4>(s, a + 4 * (long)i);
    if (R::slots > 1) kd_load<float, 4>(t, b + 4 * (long)i);
    KD_UNROLL
    for (int j = 0; j < 4; j++) R::step(v[j], d[j] * h.inv_scale, s[j], t[j], 4 * i + j < decayed ? decay : 0.f, h);
    kd_store<float, 4>(w + 4 * (long)i, v);
    if (R::slots > 0) kd_store<float, 4>(a + 4 * (long)i, s);
    if (R::slots > 1) kd_store<float, 4>(b + 4 * (long)i, t);
    if (copy) {
      if constexpr (sizeof(T) == 4) kd_store<T, 4>(copy + 4 * (long)i, v);
      else *(u32x2 *)(copy + 4 * (long)i) = u32x2{kd_pack2(v[0], v[1], T{}), kd_pack2(v[2], v[3], T{})};
    }
  }
  int i = n / 4 * 4 + at;
  if (i < n) {
    float v = w[i], s = 0.f, t = 0.f;
    if (R::slots > 0) s = a[i];
    if (R::slots > 1) t = b[i];
    R::step(v, g[i] * h.inv_scale, s, t, i < decayed ? decay : 0.f, h);
    w[i] = v;
    if (R::slots > 0) a[i] = s;
    if (R::slots > 1) b[i] = t;
    if (copy) copy[i] = kd_as<T>(v);
  }
  // The last block counts the update: all others have read what it writes.
  if (R::counts && kd_last_block(counters, gridDim.x) && threadIdx.x == 0) {
    hyper[STEP] = h.step;
    hyper[FILLED1] = h.filled1;
    hyper[FILLED2] = h.filled2;
  }
}

#define OPTIMIZER(name, R, T)                                                                                                         \
  KD_KERNEL __launch_bounds__(256) name(float *w, const float *g, float *a, float *b, float *hyper, T *copy, uint32_t *counters, int n, \
                                        int decayed) {                                                                                \
    optimize<R, T>(w, g, a, b, hyper, copy, counters, n, decayed);                                                                    \
  }                                                                                                                                   \
  KD_ENTRY(name)
#define RULE(R) OPTIMIZER(opt_##R, R, float) OPTIMIZER(opt_##R##_fp16, R, f16) OPTIMIZER(opt_##R##_bf16, R, bf16)
RULE(sgd)
RULE(momentum)
RULE(nesterov)
RULE(adagrad)
RULE(adadelta)
RULE(adam)
RULE(adamw)

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
