// kd_sm90a.h: the tensor-core instructions that only sm_90a has (Hopper; PTX ISA
// manual 8.0, "Asynchronous Warpgroup Level Matrix Instructions"). A warpgroup is
// four warps that follow one another, the first at a multiple of four; all their
// lanes execute these instructions together.
#pragma once

#define KD_WGMMA 1

// window is an address as a matrix descriptor has it: within the shared window.
KD_FN uint32_t kd_window(kd_sptr s) { return s; }
// uniform gives every lane of a warp the value of lane 0, which lets the assembler
// keep what follows from it in uniform registers.
KD_FN int kd_uniform(int v) {
  int r;
  asm volatile("shfl.sync.idx.b32 %0, %1, 0, 31, 0xffffffff;" : "=r"(r) : "r"(v));
  return r;
}
// proxy_fence makes this thread's writes to shared memory, cp.async's among them,
// visible to the asynchronous proxy, through which wgmma reads.
KD_FN void kd_proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// wgmma_fence orders accesses to the accumulators before later wgmma.
KD_FN void kd_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
KD_FN void kd_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// wgmma_wait waits until at most N of the warp's groups are under way.
template <int N> KD_FN void kd_wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
// touched tells the compiler that a thread's accumulators are read and written
// here: it moves no access to them across.
template <int J> KD_FN void kd_wgmma_touched(float (&d)[J][4]) {
  KD_UNROLL
  for (int j = 0; j < J; j++) asm volatile("" : "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])::"memory");
}

// wgmma: d += a b over 64 x 8J results, k = 16; a and b are matrix descriptors.
// TA, TB: the operand is M- or N-major ("transposed") instead of K-major.
#define KD_ACC4(j) "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])
#define KD_ACC16(j) KD_ACC4(j), KD_ACC4(j + 1), KD_ACC4(j + 2), KD_ACC4(j + 3)
#define KD_ACC32(j) KD_ACC16(j), KD_ACC16(j + 4)
#define KD_ACC64(j) KD_ACC32(j), KD_ACC32(j + 8)
#define KD_ACC128(j) KD_ACC64(j), KD_ACC64(j + 16)
#define KD_REGS32 \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15," \
  "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define KD_REGS64 \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15," \
  "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47," \
  "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define KD_REGS128 \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15," \
  "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47," \
  "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63," \
  "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79," \
  "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95," \
  "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111," \
  "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define KD_WGMMA_N(T, type, J, n, REGS, ACC, A, B, FLAGS)                                                     \
  template <int TA, int TB> KD_FN void kd_wgmma(float (&d)[J][4], uint64_t a, uint64_t b, T) {               \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" REGS "}, " A ", " B     \
                 ", 1, 1, 1, " FLAGS ";" : ACC(0) : "l"(a), "l"(b), "n"(TA), "n"(TB));                       \
  }
#define KD_WGMMA_TYPE(T, type)                                                                                \
  KD_WGMMA_N(T, type, 8, "64", KD_REGS32, KD_ACC32, "%32", "%33", "%34, %35")                                 \
  KD_WGMMA_N(T, type, 16, "128", KD_REGS64, KD_ACC64, "%64", "%65", "%66, %67")                               \
  KD_WGMMA_N(T, type, 32, "256", KD_REGS128, KD_ACC128, "%128", "%129", "%130, %131")
KD_WGMMA_TYPE(f16, "f16")
KD_WGMMA_TYPE(bf16, "bf16")
