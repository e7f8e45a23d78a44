// xent.cu: softmax cross-entropy with its gradient, loss and hits. A warp has a
// sample; the last block adds up the blocks' losses in their order.
#include "kd.h"

enum { XENT_WARPS = 8, XENT_SCALE = 3 }; // XENT_SCALE: HyperLossScale in op.go

// logits, dlogits: float[n][c]; labels: int32[n]; metrics: mean loss, hits;
// parts: float[blocks][2]. The target is certain for the label, plus each for all.
KD_KERNEL __launch_bounds__(XENT_WARPS * 32)
softmax_xent(const float *logits, const int *labels, float *metrics, float *dlogits, const float *hyper, float *parts, uint32_t *counters, int n, int c,
             float certain, float each) {
  KD_SHARED(float, s, 2 * XENT_WARPS);
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, row = (int)blockIdx.x * XENT_WARPS + warp;
  float loss = 0, hit = 0;
  if (row < n) {
    const float *z = logits + (long)row * c;
    int label = labels[row];
    float top = -3.402823466e38f;
    for (int i = lane; i < c; i += 32) top = kd_max(top, z[i]);
    top = kd_warp_max(top);
    float sum = 0, all = 0, first = (float)c; // the first of equal maxima is the prediction
    for (int i = lane; i < c; i += 32) {
      sum += kd_exp(z[i] - top);
      all += z[i] - top;
      if (z[i] == top) first = -kd_max(-first, -(float)i);
    }
    sum = kd_warp_sum(sum);
    all = kd_warp_sum(all);
    first = -kd_warp_max(-first);
    float scale = hyper[XENT_SCALE] / (float)n, inv = 1.f / sum;
    for (int i = lane; i < c; i += 32) {
      float p = kd_exp(z[i] - top) * inv;
      dlogits[(long)row * c + i] = (i == label ? p - each - certain : p - each) * scale;
    }
    loss = kd_log(sum) - certain * (z[label] - top);
    if (each > 0.f) loss -= each * all; // all is -inf where one logit is
    hit = (int)first == label ? 1.f : 0.f;
  }
  if (lane == 0) s[2 * warp] = loss, s[2 * warp + 1] = hit;
  kd_sync();
  if (threadIdx.x < 2) {
    float u = 0;
    KD_UNROLL
    for (int w = 0; w < XENT_WARPS; w++) u += s[2 * w + threadIdx.x];
    parts[2 * (long)blockIdx.x + threadIdx.x] = u;
  }
  if (!kd_last_block(counters, gridDim.x)) return;
  if (warp != 0) return;
  loss = hit = 0;
  for (int b = lane; b < (int)gridDim.x; b += 32) loss += parts[2 * b], hit += parts[2 * b + 1];
  loss = kd_warp_sum(loss);
  hit = kd_warp_sum(hit);
  if (lane == 0) metrics[0] = loss / (float)n, metrics[1] = hit;
}
KD_ENTRY(softmax_xent)
