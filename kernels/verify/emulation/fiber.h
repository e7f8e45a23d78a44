// fiber.h: a block's threads as fibers on one host thread. A fiber runs until it
// meets a barrier or a warp operation; then the next one that can run does.
#pragma once
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <atomic>
#include <mutex>
#include <thread>
#include <memory>
#include <vector>
#include "fault.h"
// The switch between fibers is a few instructions on x86-64; elsewhere, or with
// KD_UCONTEXT defined, it is the C library's.
#if !defined(__x86_64__) && !defined(KD_UCONTEXT)
#define KD_UCONTEXT
#endif
#if defined(KD_UCONTEXT)
#include <ucontext.h>
#endif

struct kd_idx { unsigned x, y, z; };
struct dim3 {
  unsigned x, y, z;
  dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};

namespace kd {

enum Op { NONE, SHFL_XOR, MMA_F16, MMA_BF16, MMA_TF32, LDSM, LDSM_T, WGMMA, WGMMA_FENCE, WGMMA_COMMIT, WGMMA_WAIT };

struct Copy { unsigned char *dst; const void *src; int n; }; // a cp.async under way

struct Worker;
struct Async; // wgmma.h

struct Fiber {
  void *sp;
  kd_idx tid;
  unsigned warp;
  bool done;
  const unsigned *gate; // blocked while *gate == ticket
  unsigned ticket;
  Op op; // the warp operation it waits in
  void *arg;
  Copy copies[64];
  int ncopies, groups[64], ngroups; // groups: copies in each committed group, oldest first
  unsigned char *arrivals[64];      // copies that arrived since the last proxy fence: the last 64
  unsigned narrived;
#if defined(KD_UCONTEXT)
  ucontext_t ctx;
#endif
};

struct Warp { unsigned generation, arrived, size; };

enum { STACK = 64 << 10, STATIC_SHARED = 48 << 10 };

// A worker runs one block at a time.
struct Worker {
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  unsigned n, live, barrier, arrived; // barrier: generations passed
  Fiber *current;
  void *main_sp;
  unsigned char *stacks = nullptr;
  size_t nstacks = 0;
  kd_idx block, block_dim, grid_dim;
  unsigned char *dynamic, *fixed; // shared memory
  std::vector<unsigned char> memory;
  size_t dynamic_size, fixed_used;
  std::vector<unsigned char> proxy; // dynamic shared memory as the asynchronous proxy sees it
  std::shared_ptr<Async> async;
  void (*finish)(Worker &); // to call when a block has ended
  uint64_t serial; // of the block
  const char *name;
  void (*fn)(void *);
  void *arg;
  bool reverse;
#if defined(KD_UCONTEXT)
  ucontext_t main_ctx;
#endif
};

inline thread_local Worker *W;
inline std::atomic<bool> reverse_order{false}; // lanes and blocks run backwards
inline std::atomic<uint64_t> serial{1};

[[noreturn]] inline void die(const char *what) {
  Worker *w = W;
  if (w && w->current) {
    kd_idx t = w->current->tid, b = w->block;
    fprintf(stderr, "kernel %s: %s (block %u,%u,%u thread %u,%u,%u)\n", w->name, what, b.x, b.y, b.z, t.x, t.y, t.z);
  } else {
    fprintf(stderr, "kernel: %s\n", what);
  }
  fflush(stderr);
  _Exit(70);
}

void entry();

#if !defined(KD_UCONTEXT)
extern "C" void kd_switch(void **save, void *load);
__asm__(".text\n.weak kd_switch\n.type kd_switch,@function\nkd_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");
inline void prepare(Worker &w, unsigned i) {
  // Staggered, so that the fibers' hot frames do not share cache sets.
  void **sp = (void **)(w.stacks + (size_t)(i + 1) * STACK - (i % 16) * 128);
  *--sp = nullptr;
  *--sp = (void *)entry;
  w.fibers[i].sp = sp - 6;
}
inline void start(Worker *w) { kd_switch(&w->main_sp, w->current->sp); }
inline void finish(Worker *w) { void *junk; kd_switch(&junk, w->main_sp); }
inline void jump(Fiber *from, Fiber *to) { kd_switch(&from->sp, to->sp); }
#else
inline void prepare(Worker &w, unsigned i) {
  ucontext_t &c = w.fibers[i].ctx;
  getcontext(&c);
  c.uc_stack.ss_sp = w.stacks + (size_t)i * STACK;
  c.uc_stack.ss_size = STACK;
  c.uc_link = nullptr;
  makecontext(&c, (void (*)())entry, 0);
}
inline void start(Worker *w) { swapcontext(&w->main_ctx, &w->current->ctx); }
inline void finish(Worker *w) { setcontext(&w->main_ctx); }
inline void jump(Fiber *from, Fiber *to) { swapcontext(&from->ctx, &to->ctx); }
#endif

inline bool ready(const Fiber &f) { return !f.done && (!f.gate || *f.gate != f.ticket); }

// next is the fiber to run: of the same warp first, then of the others.
inline Fiber *next() {
  Worker *w = W;
  unsigned n = w->n, i = (unsigned)(w->current - w->fibers.data());
  unsigned first = i & ~31u, m = (first + 32 < n ? first + 32 : n) - first;
  int d = w->reverse ? -1 : 1;
  for (unsigned k = 1; k <= m; k++) {
    Fiber &f = w->fibers[first + (i - first + m + d * (int)k) % m];
    if (ready(f)) return &f;
  }
  for (unsigned k = 1; k <= n; k++) {
    Fiber &f = w->fibers[(i + n + d * (int)k) % n];
    if (ready(f)) return &f;
  }
  return nullptr;
}

// block leaves the current fiber until its gate opens.
inline void block() {
  Fiber *c = W->current, *n = next();
  if (!n) die("deadlock: not all threads reach this barrier or warp operation");
  if (n != c) { W->current = n; jump(c, n); }
}

inline void entry() {
  W->fn(W->arg);
  Worker *w = W;
  Fiber *c = w->current;
  c->done = true;
  if (--w->live == 0) finish(w);
  if (w->arrived && w->arrived == w->live) { w->arrived = 0; w->barrier++; }
  Fiber *n = next();
  if (!n) die("deadlock after a thread returned");
  w->current = n;
  jump(c, n);
  abort();
}

inline void barrier() {
  Worker *w = W;
  if (fault == NO_BARRIER) return;
  if (++w->arrived == w->live) { w->arrived = 0; w->barrier++; return; }
  w->current->gate = &w->barrier;
  w->current->ticket = w->barrier;
  block();
  w->current->gate = nullptr;
}

// shared is a block's static array: the same for all its threads, poisoned. A
// slot belongs to one declaration and one host thread.
struct Slot { uint64_t serial = 0; unsigned char *p = nullptr; };
inline void *shared(Slot &s, size_t n) {
  Worker *w = W;
  if (s.serial != w->serial) {
    s = {w->serial, w->fixed + w->fixed_used};
    w->fixed_used += (n + 15) & ~(size_t)15;
    if (w->fixed_used > STATIC_SHARED) die("more than 48 KiB of static shared memory");
  }
  return s.p;
}

inline void run_block(Worker &w, kd_idx block, size_t dynamic) {
  w.live = w.n;
  w.barrier = w.arrived = 0;
  w.block = block;
  w.serial = serial++;
  w.warps.assign((w.n + 31) / 32, Warp{0, 0, 32});
  if (w.n & 31) w.warps.back().size = w.n & 31;
  w.memory.assign(STATIC_SHARED + dynamic + 1024, 0xff); // NaNs
  w.fixed = (unsigned char *)(((uintptr_t)w.memory.data() + 127) & ~(uintptr_t)127);
  w.fixed_used = 0;
  w.dynamic = w.fixed + STATIC_SHARED;
  w.dynamic_size = dynamic;
  w.proxy.assign(dynamic, 0xff);
  w.async = nullptr;
  w.finish = nullptr;
  for (unsigned i = 0; i < w.n; i++) {
    Fiber &f = w.fibers[i];
    kd_idx d = w.block_dim;
    f.tid = {i % d.x, i / d.x % d.y, i / (d.x * d.y)};
    f.warp = i >> 5;
    f.done = false;
    f.gate = nullptr;
    f.ncopies = f.ngroups = 0;
    f.narrived = 0;
    f.op = NONE;
    prepare(w, i);
  }
  W = &w;
  w.current = &w.fibers[w.reverse ? w.n - 1 : 0];
  start(&w);
  w.current = nullptr;
  if (w.finish) w.finish(w);
  for (size_t i = 0; i < 512; i++)
    if (w.dynamic[dynamic + i] != 0xff) die("a write behind the dynamic shared memory");
}

// Workers are kept, with their stacks, between launches.
struct Pool {
  std::mutex mu;
  std::vector<Worker *> idle;
  Worker *take() {
    std::lock_guard<std::mutex> l(mu);
    if (idle.empty()) return new Worker;
    Worker *w = idle.back();
    idle.pop_back();
    return w;
  }
  void give(Worker *w) {
    std::lock_guard<std::mutex> l(mu);
    idle.push_back(w);
  }
};
inline Pool pool;

inline unsigned host_threads() {
  static unsigned n = getenv("KD_THREADS") ? (unsigned)atoi(getenv("KD_THREADS")) : std::thread::hardware_concurrency();
  return n ? n : 1;
}

inline void launch(const char *name, dim3 g, dim3 b, size_t dynamic, void (*fn)(void *), void *arg) {
  size_t blocks = (size_t)g.x * g.y * g.z;
  unsigned n = b.x * b.y * b.z;
  bool reverse = reverse_order;
  std::atomic<size_t> at{0};
  auto work = [&] {
    Worker *w = pool.take();
    w->name = name;
    w->n = n;
    w->fn = fn;
    w->arg = arg;
    w->reverse = reverse;
    w->block_dim = {b.x, b.y, b.z};
    w->grid_dim = {g.x, g.y, g.z};
    w->fibers.resize(n);
    if (w->nstacks < n) {
      if (w->stacks) munmap(w->stacks, w->nstacks * STACK);
      w->stacks = (unsigned char *)mmap(nullptr, (size_t)n * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (w->stacks == MAP_FAILED) die("no memory for the stacks of a block's threads");
      w->nstacks = n;
    }
    for (size_t i; (i = at++) < blocks;) {
      size_t k = reverse ? blocks - 1 - i : i;
      run_block(*w, {(unsigned)(k % g.x), (unsigned)(k / g.x % g.y), (unsigned)(k / ((size_t)g.x * g.y))}, dynamic);
    }
    W = nullptr;
    pool.give(w);
  };
  std::vector<std::thread> helpers;
  for (unsigned i = 1; i < host_threads() && i < blocks && blocks * n > 2048; i++) helpers.emplace_back(work);
  work();
  for (auto &t : helpers) t.join();
}

} // namespace kd
