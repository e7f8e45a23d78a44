// kd_device.h: kd.h for NVIDIA GPUs: clang's CUDA mode and inline PTX. The
// instructions are those of the PTX ISA 7.0 manual.
#pragma once

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
struct kd_idx { unsigned x, y, z; };
#define KD_IDX(r) (kd_idx{(unsigned)__nvvm_read_ptx_sreg_##r##_x(), (unsigned)__nvvm_read_ptx_sreg_##r##_y(), (unsigned)__nvvm_read_ptx_sreg_##r##_z()})
#define threadIdx KD_IDX(tid)
#define blockIdx KD_IDX(ctaid)
#define blockDim KD_IDX(ntid)
#define gridDim KD_IDX(nctaid)

#define KD_FN static __device__ inline __attribute__((always_inline))
#define KD_METHOD __device__ inline __attribute__((always_inline))
#define KD_KERNEL extern "C" __global__ void
#define KD_ENTRY(name) // the host's list of kernels
#define KD_UNROLL _Pragma("unroll")
#define KD_SHARED(T, name, n) static __shared__ __attribute__((aligned(16))) T name[n]
#define KD_DYN_SHARED(name) extern __shared__ __attribute__((aligned(128))) unsigned char name[]

// An address in shared memory, in bytes.
typedef unsigned kd_sptr;
KD_FN kd_sptr kd_saddr(const void *p) {
  unsigned a;
  asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(a) : "l"(p));
  return a;
}
KD_FN void kd_sync() { asm volatile("bar.sync 0;" ::: "memory"); }
KD_FN void kd_fence() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
KD_FN float kd_shfl_xor(float v, int m) {
  float r;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(r) : "f"(v), "r"(m));
  return r;
}
KD_FN uint32_t kd_atomic_add(uint32_t *p, uint32_t v) {
  uint32_t r;
  asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(r) : "l"(p), "r"(v) : "memory");
  return r;
}
KD_FN void kd_shared_add(uint32_t *p, uint32_t v) {
  uint32_t r;
  asm volatile("atom.shared.add.u32 %0, [%1], %2;" : "=r"(r) : "r"(kd_saddr(p)), "r"(v) : "memory");
}
// Builtins rather than asm where clang has one: it takes asm for a barrier of
// sorts ("convergent") and unrolls no loop around it.
KD_FN float kd_exp2(float x) { return __nvvm_ex2_approx_ftz_f(x); }
KD_FN float kd_log2(float x) { return __nvvm_lg2_approx_ftz_f(x); }
KD_FN float kd_sqrt(float x) { return __nvvm_sqrt_rn_f(x); }
KD_FN float kd_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
KD_FN float kd_max(float a, float b) { return __builtin_fmaxf(a, b); }

KD_FN float kd_f(f16 h) { return (float)__builtin_bit_cast(_Float16, h); }
KD_FN f16 kd_h(float f) { return __builtin_bit_cast(f16, (_Float16)f); }
KD_FN float kd_f(bf16 h) { return __builtin_bit_cast(float, (uint32_t)h.u << 16); }
#if __CUDA_ARCH__ >= 800
KD_FN bf16 kd_b(float f) { return __builtin_bit_cast(bf16, __nvvm_f2bf16_rn(f)); }
KD_FN uint32_t kd_pack2(float lo, float hi, f16) { return __builtin_bit_cast(uint32_t, __nvvm_ff2f16x2_rn(hi, lo)); }
KD_FN uint32_t kd_pack2(float lo, float hi, bf16) { return __builtin_bit_cast(uint32_t, __nvvm_ff2bf16x2_rn(hi, lo)); }
#else
KD_FN bf16 kd_b(float f) { // to nearest even, in integers: sm_70 has no instruction for it
  uint32_t u = __builtin_bit_cast(uint32_t, f);
  return bf16{(uint16_t)((u & 0x7fffffff) > 0x7f800000 ? 0x7fff : (u + 0x7fff + ((u >> 16) & 1)) >> 16)};
}
KD_FN uint32_t kd_pack2(float lo, float hi, f16) { return kd_h(lo).u | (uint32_t)kd_h(hi).u << 16; }
KD_FN uint32_t kd_pack2(float lo, float hi, bf16) { return kd_b(lo).u | (uint32_t)kd_b(hi).u << 16; }
#endif

#if __CUDA_ARCH__ >= 750
#define KD_TENSOR 1
// cp16 starts a copy of 16 bytes from global to shared memory; zeros when !ok.
// cached: by way of L1, for what neighbouring reads share.
#if __CUDA_ARCH__ >= 800
template <bool CACHED> KD_FN void kd_cp16(kd_sptr s, const void *g, bool ok) {
  int n = ok ? 16 : 0;
  if constexpr (CACHED) asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(s), "l"(g), "r"(n) : "memory");
  else asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(s), "l"(g), "r"(n) : "memory");
}
KD_FN void kd_cp_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// cp_wait waits until at most N of this thread's groups are under way.
template <int N> KD_FN void kd_cp_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
// mma: d += a b over a 16x8 tile, k = 16 (8 for tf32); fragments as in the PTX manual.
KD_FN void kd_mma(float d[4], const uint32_t a[4], const uint32_t b[2], f16) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
KD_FN void kd_mma(float d[4], const uint32_t a[4], const uint32_t b[2], bf16) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
KD_FN void kd_mma(float d[4], const uint32_t a[4], const uint32_t b[2], tf32) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// to_tf32 rounds the mantissa of a float's bits to 10 bits, ties away from zero.
KD_FN uint32_t kd_to_tf32(uint32_t u) { return (uint32_t)__nvvm_f2tf32_rna(__builtin_bit_cast(float, u)); }
#else // Turing: no cp.async, so a plain copy; half the depth an instruction, fp16 alone
template <bool CACHED> KD_FN void kd_cp16(kd_sptr s, const void *g, bool ok) {
  u32x4 v = {0, 0, 0, 0};
  if (ok) v = *(const u32x4 *)g;
  asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(s), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]) : "memory");
}
KD_FN void kd_cp_commit() {}
template <int N> KD_FN void kd_cp_wait() {}
KD_FN void kd_mma(float d[4], const uint32_t a[4], const uint32_t b[2], f16) {
  for (int i = 0; i < 2; i++)
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[2 * i]), "r"(a[2 * i + 1]), "r"(b[i]));
}
KD_FN uint32_t kd_to_tf32(uint32_t u) { return u; } // never called
#endif
// lds loads 4 bytes of shared memory.
KD_FN uint32_t kd_lds(kd_sptr s) { uint32_t r; asm volatile("ld.shared.u32 %0, [%1];" : "=r"(r) : "r"(s) : "memory"); return r; }
// ldsm loads four 8x8 matrices of 16-bit elements; lane i gives the address of
// row i%8 of matrix i/8. ldsm_t transposes each.
KD_FN void kd_ldsm(uint32_t r[4], kd_sptr s) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(s) : "memory");
}
KD_FN void kd_ldsm_t(uint32_t r[4], kd_sptr s) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(s) : "memory");
}
#endif
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#include "kd_sm90a.h"
#endif
