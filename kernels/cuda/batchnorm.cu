// batchnorm.cu: batch norm over the channels of [rows][C], with residual and ReLU
// fused. Training takes two launches each way: sums over the rows, whose last
// block turns them into statistics, then the elements, from the end, where L2
// still has them. Bound by memory.
#include "columns.h"

// Statistics of x. The sums are of x minus its first row, so that a mean that is
// large against the deviation costs no precision.
template <class T, int V>
KD_FN void norm_stats(const T *x, float *run_mean, float *run_var, float *mean, float *invstd, float *parts, uint32_t *counters, int rows, int C,
                      float eps, float momentum) {
  typedef columns<T, V, SUM_THREADS> cols;
  float shift[V] = {}, v[2][V] = {};
  int c = cols::first();
  if (c < C) kd_load<T, V>(shift, x + c);
  const T *arrays[] = {x};
  cols::template sweep<false>(arrays, rows, C, [&](long, const typename cols::raw *w) {
    float u[V];
    unpack_values<T, V>(u, w[0]);
    KD_UNROLL
    for (int j = 0; j < V; j++) {
      float d = u[j] - shift[j];
      v[0][j] += d;
      v[1][j] = kd_fma(d, d, v[1][j]);
    }
  });
  cols::template sum<2>(v, C, parts, counters, [&](int c, const float *sum) {
    float n = (float)rows, d = sum[0] / n, m = kd_f(x[c]) + d;
    float var = sum[1] / n - d * d; // biased
    if (var < 0.f) var = 0.f;
    mean[c] = m;
    invstd[c] = 1.f / kd_sqrt(var + eps);
    run_mean[c] = kd_fma(momentum, m - run_mean[c], run_mean[c]);
    float unbiased = var * (n / (rows > 1 ? n - 1.f : 1.f));
    run_var[c] = kd_fma(momentum, unbiased - run_var[c], run_var[c]);
  });
}

// y = (x - mean) * invstd * gamma + beta [+ residual] [then ReLU]. In evaluation
// spread is the variance, else 1/sqrt(variance + eps).
template <class T, int V>
KD_FN void norm_apply(const T *x, T *y, const float *gamma, const float *beta, const float *mean, const float *spread, const T *residual, int rows, int C,
                      float eps, bool eval, bool relu) {
  typedef columns<T, V, PASS_THREADS> cols;
  float m[V] = {}, scale[V] = {}, b[V] = {};
  int c = cols::first();
  if (c < C) {
    KD_UNROLL
    for (int j = 0; j < V; j++) {
      float s = spread[c + j];
      if (eval) s = 1.f / kd_sqrt(s + eps);
      m[j] = mean[c + j], scale[j] = s * gamma[c + j], b[j] = beta[c + j];
    }
  }
  const T *arrays[] = {x, residual};
  cols::template sweep<true>(arrays, rows, C, [&](long i, const typename cols::raw *w) {
    float u[V], r[V];
    unpack_values<T, V>(u, w[0]);
    if (residual) unpack_values<T, V>(r, w[1]);
    KD_UNROLL
    for (int j = 0; j < V; j++) {
      float v = kd_fma(u[j] - m[j], scale[j], b[j]);
      if (residual) v += r[j];
      u[j] = relu ? kd_relu(v) : v;
    }
    kd_store<T, V>(y + i, u);
  });
}

// masked is dy (w[0]), or zero where y (w[2]) is not positive; without ReLU there
// is no y.
template <class T, int V> KD_FN void masked(float *g, const typename raw_values<T, V>::type *w, bool relu) {
  unpack_values<T, V>(g, w[0]);
  if (!relu) return;
  float v[V];
  unpack_values<T, V>(v, w[2]);
  KD_UNROLL
  for (int j = 0; j < V; j++) g[j] = v[j] > 0.f ? g[j] : 0.f;
}

// dbeta = sum g, dgamma = sum g * xhat.
template <class T, int V>
KD_FN void norm_grad_sums(const T *dy, const T *x, const T *y, const float *mean, const float *invstd, float *dgamma, float *dbeta, float *parts,
                          uint32_t *counters, int rows, int C) {
  typedef columns<T, V, SUM_THREADS> cols;
  float m[V] = {}, v[2][V] = {};
  int c = cols::first();
  if (c < C) {
    KD_UNROLL
    for (int j = 0; j < V; j++) m[j] = mean[c + j];
  }
  const T *arrays[] = {dy, x, y};
  cols::template sweep<false>(arrays, rows, C, [&](long, const typename cols::raw *w) {
    float g[V], u[V];
    masked<T, V>(g, w, y);
    unpack_values<T, V>(u, w[1]);
    KD_UNROLL
    for (int j = 0; j < V; j++) {
      v[0][j] += g[j];
      v[1][j] = kd_fma(g[j], u[j] - m[j], v[1][j]);
    }
  });
  cols::template sum<2>(v, C, parts, counters, [&](int c, const float *sum) {
    dbeta[c] = sum[0];
    dgamma[c] = sum[1] * invstd[c];
  });
}

// dx = gamma*invstd*(g - dbeta/rows - xhat*dgamma/rows); dres = g. dx may be dy.
template <class T, int V>
KD_FN void norm_grad(const T *dy, const T *x, const T *y, const float *gamma, const float *mean, const float *invstd, T *dx, const float *dgamma,
                     const float *dbeta, T *dres, int rows, int C) {
  typedef columns<T, V, PASS_THREADS> cols;
  float m[V] = {}, a[V] = {}, b[V] = {}, k[V] = {}; // dx = a*g - b*(x - m) - k
  int c = cols::first();
  float inv_rows = 1.f / (float)rows;
  if (c < C) {
    KD_UNROLL
    for (int j = 0; j < V; j++) {
      float s = invstd[c + j];
      m[j] = mean[c + j];
      a[j] = gamma[c + j] * s;
      b[j] = a[j] * s * dgamma[c + j] * inv_rows;
      k[j] = a[j] * dbeta[c + j] * inv_rows;
    }
  }
  const T *arrays[] = {dy, x, y};
  cols::template sweep<true>(arrays, rows, C, [&](long i, const typename cols::raw *w) {
    float g[V], u[V];
    masked<T, V>(g, w, y);
    unpack_values<T, V>(u, w[1]);
    if (dres) kd_store<T, V>(dres + i, g);
    KD_UNROLL
    for (int j = 0; j < V; j++) u[j] = kd_fma(a[j], g[j], -kd_fma(b[j], u[j] - m[j], k[j]));
    kd_store<T, V>(dx + i, u);
  });
}

#define BATCHNORM(name, T, V)                                                                                               \
  KD_KERNEL __launch_bounds__(SUM_THREADS)                                                                                  \
  batchnorm_stats_##name(const T *x, float *run_mean, float *run_var, float *mean, float *invstd, float *parts, uint32_t *counters, int rows, int C, \
                         float eps, float momentum) {                                                                       \
    norm_stats<T, V>(x, run_mean, run_var, mean, invstd, parts, counters, rows, C, eps, momentum);                          \
  }                                                                                                                         \
  KD_ENTRY(batchnorm_stats_##name)                                                                                          \
  KD_KERNEL __launch_bounds__(PASS_THREADS, 2)                                                                              \
  batchnorm_apply_##name(const T *x, T *y, const float *gamma, const float *beta, const float *mean, const float *spread, const T *residual, int rows, \
                         int C, float eps, int eval, int relu) {                                                            \
    norm_apply<T, V>(x, y, gamma, beta, mean, spread, residual, rows, C, eps, eval, relu);                                  \
  }                                                                                                                         \
  KD_ENTRY(batchnorm_apply_##name)                                                                                          \
  KD_KERNEL __launch_bounds__(SUM_THREADS)                                                                                  \
  batchnorm_grad_sums_##name(const T *dy, const T *x, const T *y, const float *mean, const float *invstd, float *dgamma, float *dbeta, float *parts, \
                             uint32_t *counters, int rows, int C) {                                                         \
    norm_grad_sums<T, V>(dy, x, y, mean, invstd, dgamma, dbeta, parts, counters, rows, C);                                  \
  }                                                                                                                         \
  KD_ENTRY(batchnorm_grad_sums_##name)                                                                                      \
  KD_KERNEL __launch_bounds__(PASS_THREADS, 2)                                                                              \
  batchnorm_grad_##name(const T *dy, const T *x, const T *y, const float *gamma, const float *mean, const float *invstd, T *dx, const float *dgamma, \
                        const float *dbeta, T *dres, int rows, int C) {                                                     \
    norm_grad<T, V>(dy, x, y, gamma, mean, invstd, dx, dgamma, dbeta, dres, rows, C);                                       \
  }                                                                                                                         \
  KD_ENTRY(batchnorm_grad_##name)

BATCHNORM(fp32, float, 4)
BATCHNORM(fp32_v1, float, 1)
BATCHNORM(fp16, f16, 8)
BATCHNORM(fp16_v1, f16, 1)
BATCHNORM(bf16, bf16, 8)
BATCHNORM(bf16_v1, bf16, 1)
