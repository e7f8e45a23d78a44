// kd.h: what the kernels are written in. One source serves two targets: PTX,
// compiled by clang without NVIDIA's headers (kd_device.h), and the host, where
// the tests run a block's threads as fibers (emulation/host.h).
//
// KD_KERNEL declares an entry point, KD_SHARED a block's array, KD_DYN_SHARED
// the launch's dynamic shared memory. Loads, stores and arithmetic are plain
// C++; whatever a thread does together with others is a kd_ function.
#pragma once
#include <stdint.h>

typedef struct { uint16_t u; } f16;  // IEEE 754 binary16
typedef struct { uint16_t u; } bf16; // bfloat16
typedef struct { float f; } tf32;    // float32 in memory, multiplied with a 10-bit mantissa

// 16- and 8-byte vectors: one load or store instruction each.
typedef uint32_t u32x4 __attribute__((vector_size(16)));
typedef uint32_t u32x2 __attribute__((vector_size(8)));
typedef float f32x4 __attribute__((vector_size(16)));
typedef float f32x2 __attribute__((vector_size(8)));

#if defined(__CUDA__)
#include "kd_device.h"
#else
#include "emulation/host.h"
#endif

// Conversions. Stored types are float, f16 and bf16.
KD_FN float kd_f(float v) { return v; }
KD_FN float kd_f(tf32 v) { return v.f; }
KD_FN float kd_from(float v, float) { return v; }
KD_FN f16 kd_from(float v, f16) { return kd_h(v); }
KD_FN bf16 kd_from(float v, bf16) { return kd_b(v); }
KD_FN tf32 kd_from(float v, tf32) { return tf32{v}; }
template <class T> KD_FN T kd_as(float v) { return kd_from(v, T{}); }

// The number of elements in 16 bytes.
template <class T> struct kd_vec { static const int n = 16 / sizeof(T); };

KD_FN float kd_bits(uint32_t u) { union { uint32_t u; float f; } c; c.u = u; return c.f; }
KD_FN uint32_t kd_bits(float f) { union { uint32_t u; float f; } c; c.f = f; return c.u; }
KD_FN float kd_lo(uint32_t w, f16) { return kd_f(f16{(uint16_t)w}); }
KD_FN float kd_hi(uint32_t w, f16) { return kd_f(f16{(uint16_t)(w >> 16)}); }
KD_FN float kd_lo(uint32_t w, bf16) { return kd_bits(w << 16); }
KD_FN float kd_hi(uint32_t w, bf16) { return kd_bits(w & 0xffff0000u); }

// unpack and pack convert 16 bytes to and from float.
template <class T> KD_FN void kd_unpack(float *v, u32x4 w) {
  if constexpr (sizeof(T) == 4) {
    for (int i = 0; i < 4; i++) v[i] = kd_bits(w[i]);
  } else {
    for (int i = 0; i < 4; i++) v[2 * i] = kd_lo(w[i], T{}), v[2 * i + 1] = kd_hi(w[i], T{});
  }
}
template <class T> KD_FN u32x4 kd_pack(const float *v) {
  u32x4 w;
  if constexpr (sizeof(T) == 4) {
    for (int i = 0; i < 4; i++) w[i] = kd_bits(v[i]);
  } else {
    for (int i = 0; i < 4; i++) w[i] = kd_pack2(v[2 * i], v[2 * i + 1], T{});
  }
  return w;
}

// load and store move V consecutive elements: one, or 16 bytes of them, aligned.
template <class T, int V> KD_FN void kd_load(float *v, const T *p) {
  if constexpr (V == 1) v[0] = kd_f(*p);
  else kd_unpack<T>(v, *(const u32x4 *)p);
}
template <class T, int V> KD_FN void kd_store(T *p, const float *v) {
  if constexpr (V == 1) *p = kd_as<T>(v[0]);
  else *(u32x4 *)p = kd_pack<T>(v);
}

// ReLU as PyTorch has it: a NaN stays one.
KD_FN float kd_relu(float v) { return v < 0.f ? 0.f : v; }

KD_FN float kd_exp(float x) { return kd_exp2(x * 1.4426950408889634f); }
KD_FN float kd_log(float x) { return kd_log2(x) * 0.6931471805599453f; }
// Sums and maxima over a warp, the same in every lane, in a fixed order.
KD_FN float kd_warp_sum(float v) { for (int m = 16; m; m >>= 1) v += kd_shfl_xor(v, m); return v; }
KD_FN float kd_warp_max(float v) { for (int m = 16; m; m >>= 1) v = kd_max(v, kd_shfl_xor(v, m)); return v; }

// last_block is true in all threads of the block that is the last of total to
// call it on a counter, which it clears again. What the other blocks wrote
// before their call is then visible to it.
KD_FN bool kd_last_block(uint32_t *counter, unsigned total) {
  KD_SHARED(uint32_t, last, 1);
  kd_fence();
  kd_sync();
  if (threadIdx.x == 0) {
    last[0] = kd_atomic_add(counter, 1u) == total - 1;
    if (last[0]) *counter = 0;
  }
  kd_sync();
  bool is = last[0] != 0;
  if (is) kd_fence();
  return is;
}
