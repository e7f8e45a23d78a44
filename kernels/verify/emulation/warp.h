// warp.h: what the lanes of a warp do together, as the PTX ISA manual describes
// it: shuffles, ldmatrix, mma.sync and their fragment layouts.
#pragma once
#include "fiber.h"
#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace kd {

inline float bits_float(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
inline uint32_t float_bits(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }

inline float f16_float(uint16_t h) {
#if defined(__F16C__)
  return _cvtsh_ss(h);
#else
  uint32_t s = (uint32_t)(h & 0x8000) << 16, e = (h >> 10) & 31, m = h & 1023;
  if (e == 31) return bits_float(s | 0x7f800000 | m << 13);
  if (e) return bits_float(s | (e + 112) << 23 | m << 13);
  return bits_float(s | float_bits(m * 0x1p-24f));
#endif
}
inline uint16_t float_f16(float f) {
#if defined(__F16C__)
  return _cvtss_sh(f, 0);
#else
  uint32_t u = float_bits(f), s = (u >> 16) & 0x8000;
  u &= 0x7fffffff;
  if (u > 0x7f800000) return s | 0x7e00;
  if (u >= 0x477ff000) return s | 0x7c00;
  if (u < 0x38800000) return s | (float_bits(bits_float(u) + 0.5f) - 0x3f000000);
  return s | ((u - 0x38000000 + 0xfff + ((u >> 13) & 1)) >> 13);
#endif
}
inline float bf16_float(uint16_t h) { return bits_float((uint32_t)h << 16); }
inline uint16_t float_bf16(float f) {
  uint32_t u = float_bits(f);
  return (u & 0x7fffffff) > 0x7f800000 ? 0x7fff : (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}
inline float tf32_float(uint32_t u) { return bits_float(u & 0xffffe000); } // the rest is ignored

struct MmaArg { float *d; const uint32_t *a, *b; };
struct LdsmArg { uint32_t *r; const unsigned char *row; };
struct ShflArg { float v, r; int mask; };

inline void accumulate(Fiber *f, const float (*A)[16], const float (*B)[8], int depth) {
  float C[16][8];
  for (int l = 0; l < 32; l++) {
    float *d = ((MmaArg *)f[l].arg)->d;
    int g = l >> 2, t = (l & 3) * 2;
    C[g][t] = d[0], C[g][t + 1] = d[1], C[g + 8][t] = d[2], C[g + 8][t + 1] = d[3];
  }
  for (int m = 0; m < 16; m++)
    for (int k = 0; k < depth; k++)
      for (int n = 0; n < 8; n++) C[m][n] += A[m][k] * B[k][n];
  for (int l = 0; l < 32; l++) {
    float *d = ((MmaArg *)f[l].arg)->d;
    int g = l >> 2, t = (l & 3) * 2;
    d[0] = C[g][t], d[1] = C[g][t + 1], d[2] = C[g + 8][t], d[3] = C[g + 8][t + 1];
  }
}

template <class F> inline void mma_16816(Fiber *f, F to_float) {
  float A[16][16], B[16][8];
  for (int l = 0; l < 32; l++) {
    MmaArg *x = (MmaArg *)f[l].arg;
    int g = l >> 2, t = (l & 3) * 2;
    for (int i = 0; i < 4; i++) {
      float *p = &A[g + (i & 1) * 8][t + (i >> 1) * 8];
      p[0] = to_float((uint16_t)x->a[i]), p[1] = to_float((uint16_t)(x->a[i] >> 16));
    }
    for (int i = 0; i < 2; i++) B[t + i * 8][g] = to_float((uint16_t)x->b[i]), B[t + i * 8 + 1][g] = to_float((uint16_t)(x->b[i] >> 16));
  }
  accumulate(f, A, B, 16);
}

inline void mma_1688_tf32(Fiber *f) {
  float A[16][16], B[8][8];
  for (int l = 0; l < 32; l++) {
    MmaArg *x = (MmaArg *)f[l].arg;
    int g = l >> 2, t = l & 3;
    for (int i = 0; i < 4; i++) A[g + (i & 1) * 8][t + (i >> 1) * 4] = tf32_float(x->a[i]);
    for (int i = 0; i < 2; i++) B[t + i * 4][g] = tf32_float(x->b[i]);
  }
  accumulate(f, A, B, 8);
}

// Rows of ldmatrix that met another in a bank: each 8x8 matrix is one access to
// shared memory when its rows lie in different 16 bytes of 128.
inline std::atomic<uint64_t> bank_conflicts{0};

inline void ldsm(Fiber *f, bool transpose) {
  const uint16_t *row[32];
  for (int l = 0; l < 32; l++) {
    row[l] = (const uint16_t *)((LdsmArg *)f[l].arg)->row;
    if ((uintptr_t)row[l] & 15) die("ldmatrix row address not aligned to 16 bytes");
  }
  for (int i = 0; i < 4; i++) {
    unsigned banks = 0;
    for (int l = 0; l < 8; l++) banks |= 1u << ((uintptr_t)row[i * 8 + l] / 16 % 8);
    bank_conflicts += 8 - __builtin_popcount(banks);
  }
  for (int l = 0; l < 32; l++)
    for (int i = 0; i < 4; i++) {
      int r = l >> 2, c = (l & 3) * 2;
      uint32_t lo = transpose ? row[i * 8 + c][r] : row[i * 8 + r][c];
      uint32_t hi = transpose ? row[i * 8 + c + 1][r] : row[i * 8 + r][c + 1];
      ((LdsmArg *)f[l].arg)->r[i] = lo | hi << 16;
    }
}

// All lanes of a warp meet; the last to arrive does the operation for them: run,
// with the warp's fibers.
template <class F> inline void meet(Op op, void *arg, F run) {
  Worker *w = W;
  Fiber *c = w->current;
  Warp &wp = w->warps[c->warp];
  c->op = op;
  c->arg = arg;
  if (++wp.arrived < wp.size) {
    c->gate = &wp.generation;
    c->ticket = wp.generation;
    block();
    c->gate = nullptr;
    return;
  }
  wp.arrived = 0;
  wp.generation++;
  Fiber *f = &w->fibers[c->warp * 32];
  for (unsigned l = 0; l < wp.size; l++)
    if (f[l].op != op) die("lanes of a warp are in different warp operations");
  if (wp.size != 32) die("a warp operation needs a full warp");
  run(f);
}

inline void warp_op(Op op, void *arg) {
  meet(op, arg, [=](Fiber *f) {
    switch (op) {
    case MMA_F16: mma_16816(f, f16_float); break;
    case MMA_BF16: mma_16816(f, bf16_float); break;
    case MMA_TF32: mma_1688_tf32(f); break;
    case LDSM: ldsm(f, false); break;
    case LDSM_T: ldsm(f, true); break;
    case SHFL_XOR:
      for (unsigned l = 0; l < 32; l++) {
        ShflArg *a = (ShflArg *)f[l].arg;
        a->r = ((ShflArg *)f[l ^ a->mask].arg)->v;
      }
      break;
    default: die("unknown warp operation");
    }
  });
}

// check_shared dies when p is outside the block's dynamic shared memory.
inline void check_shared(const unsigned char *p, size_t n) {
  if (p < W->dynamic || p + n > W->dynamic + W->dynamic_size) die("an address outside the dynamic shared memory");
}

inline void copy_async(unsigned char *dst, const void *src, bool ok) {
  if (((uintptr_t)dst | (uintptr_t)src) & 15) die("cp.async address not aligned to 16 bytes");
  check_shared(dst, 16);
  Fiber *f = W->current;
  if (f->ncopies == 64) die("more than 64 cp.async under way in a thread");
  memset(dst, 0xff, 16); // poison until waited for
  memset(W->proxy.data() + (dst - W->dynamic), 0xff, 16);
  f->copies[f->ncopies++] = {dst, src, ok ? 16 : 0};
}
inline void copy_commit() {
  Fiber *f = W->current;
  int n = f->ncopies;
  for (int i = 0; i < f->ngroups; i++) n -= f->groups[i];
  if (f->ngroups == 64) die("more than 64 cp.async groups under way in a thread");
  f->groups[f->ngroups++] = n;
}
// copy_wait completes the oldest groups, but for the last keep.
inline void copy_wait(int keep) {
  Fiber *f = W->current;
  if (fault == EARLY_PRODUCT) keep++;
  while (f->ngroups > keep) {
    int n = f->groups[0];
    for (int i = 0; i < n; i++) {
      memset(f->copies[i].dst, 0, 16);
      memcpy(f->copies[i].dst, f->copies[i].src, f->copies[i].n);
      f->arrivals[f->narrived++ % 64] = f->copies[i].dst;
    }
    memmove(f->copies, f->copies + n, (f->ncopies - n) * sizeof(Copy));
    f->ncopies -= n;
    memmove(f->groups, f->groups + 1, sizeof(int) * --f->ngroups);
  }
}

} // namespace kd
