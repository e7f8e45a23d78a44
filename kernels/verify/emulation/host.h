// host.h: kd.h on the host. It finds barriers and warp operations that not all threads reach,
// misaligned vectors, and writes past the shared memory. It poisons cp.async data before the wait
// and shared memory that was never written with NaNs, so reads of them show.
#pragma once
#include <math.h>
#include <stddef.h>
#include "registry.h"
#include "warp.h"
#include "wgmma.h"

#define __launch_bounds__(...)
#define KD_FN static inline
#define KD_METHOD inline
#define KD_KERNEL static void
#define KD_UNROLL
#define KD_SHARED(T, name, n) static thread_local kd::Slot name##_slot; T *name = (T *)kd::shared(name##_slot, sizeof(T) * (n))
#define KD_DYN_SHARED(name) unsigned char *name = kd::W->dynamic
#define KD_ENTRY(name) static kd::Entry kd_entry_##name(#name, name);
#define KD_TENSOR 1
#define KD_WGMMA 1

#define threadIdx (kd::W->current->tid)
#define blockIdx (kd::W->block)
#define blockDim (kd::W->block_dim)
#define gridDim (kd::W->grid_dim)

typedef uintptr_t kd_sptr;
KD_FN kd_sptr kd_saddr(const void *p) { return (kd_sptr)p; }
KD_FN void kd_sync() { kd::barrier(); }
KD_FN void kd_fence() { std::atomic_thread_fence(std::memory_order_acq_rel); }
KD_FN float kd_shfl_xor(float v, int m) { kd::ShflArg a{v, 0, m}; kd::warp_op(kd::SHFL_XOR, &a); return a.r; }
KD_FN uint32_t kd_atomic_add(uint32_t *p, uint32_t v) { return __atomic_fetch_add(p, v, __ATOMIC_ACQ_REL); }
KD_FN void kd_shared_add(uint32_t *p, uint32_t v) { __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
KD_FN float kd_exp2(float x) { return exp2f(x); }
KD_FN float kd_log2(float x) { return log2f(x); }
KD_FN float kd_sqrt(float x) { return sqrtf(x); }
KD_FN float kd_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
KD_FN float kd_max(float a, float b) { return fmaxf(a, b); }

KD_FN float kd_f(f16 h) { return kd::f16_float(h.u); }
KD_FN f16 kd_h(float f) { return {kd::float_f16(f)}; }
KD_FN float kd_f(bf16 h) { return kd::bf16_float(h.u); }
KD_FN bf16 kd_b(float f) { return {kd::float_bf16(f)}; }
KD_FN uint32_t kd_pack2(float lo, float hi, f16) { return kd::float_f16(lo) | (uint32_t)kd::float_f16(hi) << 16; }
KD_FN uint32_t kd_pack2(float lo, float hi, bf16) { return kd::float_bf16(lo) | (uint32_t)kd::float_bf16(hi) << 16; }

template <bool CACHED> KD_FN void kd_cp16(kd_sptr s, const void *g, bool ok) { kd::copy_async((unsigned char *)s, g, ok); }
KD_FN void kd_cp_commit() { kd::copy_commit(); }
template <int N> KD_FN void kd_cp_wait() { kd::copy_wait(N); }
KD_FN void kd_mma(float d[4], const uint32_t a[4], const uint32_t b[2], f16) { kd::MmaArg x{d, a, b}; kd::warp_op(kd::MMA_F16, &x); }
KD_FN void kd_mma(float d[4], const uint32_t a[4], const uint32_t b[2], bf16) { kd::MmaArg x{d, a, b}; kd::warp_op(kd::MMA_BF16, &x); }
KD_FN void kd_mma(float d[4], const uint32_t a[4], const uint32_t b[2], tf32) { kd::MmaArg x{d, a, b}; kd::warp_op(kd::MMA_TF32, &x); }
KD_FN uint32_t kd_to_tf32(uint32_t u) { return (u & 0x7f800000) == 0x7f800000 ? u : (u + 0x1000) & 0xffffe000; }
KD_FN uint32_t kd_lds(kd_sptr s) { kd::check_shared((const unsigned char *)s, 4); return *(const uint32_t *)s; }
KD_FN void kd_ldsm(uint32_t r[4], kd_sptr s) { kd::LdsmArg x{r, (const unsigned char *)s}; kd::check_shared(x.row, 16); kd::warp_op(kd::LDSM, &x); }
KD_FN void kd_ldsm_t(uint32_t r[4], kd_sptr s) { kd::LdsmArg x{r, (const unsigned char *)s}; kd::check_shared(x.row, 16); kd::warp_op(kd::LDSM_T, &x); }

KD_FN uint32_t kd_window(kd_sptr s) { return kd::window(s); }
KD_FN int kd_uniform(int v) { return v; }
KD_FN void kd_proxy_fence() { kd::proxy_fence(); }
KD_FN void kd_wgmma_fence() { kd::meet(kd::WGMMA_FENCE, nullptr, [](kd::Fiber *) { kd::wgmma_fence(); }); }
KD_FN void kd_wgmma_commit() { kd::meet(kd::WGMMA_COMMIT, nullptr, [](kd::Fiber *) { kd::wgmma_commit(); }); }
template <int N> KD_FN void kd_wgmma_wait() { kd::meet(kd::WGMMA_WAIT, nullptr, [](kd::Fiber *) { kd::wgmma_wait(N); }); }
template <int J> KD_FN void kd_wgmma_touched(float (&)[J][4]) { kd::async_warp().fenced = false; }
KD_FN kd::Op kd_wgmma_type(f16) { return kd::MMA_F16; }
KD_FN kd::Op kd_wgmma_type(bf16) { return kd::MMA_BF16; }
template <int TA, int TB, int J, class T> KD_FN void kd_wgmma(float (&d)[J][4], uint64_t a, uint64_t b, T t) {
  kd::WgmmaArg x{&d[0][0], a, b, kd_wgmma_type(t), J * 8, TA != 0, TB != 0};
  kd::meet(kd::WGMMA, &x, kd::wgmma_issue);
}
