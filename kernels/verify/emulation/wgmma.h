// wgmma.h: Hopper's asynchronous products as the PTX ISA manual allows them to go,
// at their most inconvenient:
//
// - A warp's share of a product (16 of the 64 rows) reads shared memory at some time
//   between its issue and the wait that covers it, drawn by chance for each.
// - Its accumulators are NaNs from the issue to that wait. Who writes them in
//   between is stopped; so is who issues a product on them without a fence.
// - It reads by the asynchronous proxy: what cp.async wrote is NaN there until the
//   thread that copied has passed a proxy fence after its wait; what a plain store
//   wrote is NaN for ever, for nothing here multiplies such data.
// - The warps of a warpgroup meet nowhere else than at barriers, and must execute
//   the same instructions.
// - Descriptors are taken apart bit by bit, and the swizzle is an exclusive or on
//   the bits of an address in the shared window, whose dynamic part begins at a
//   different multiple of 128 from block to block.
//
// The sources are those that conv_wgmma.h names.
#pragma once
#include "warp.h"
#include <deque>
#include <memory>

namespace kd {

// The window address of dynamic shared memory: aligned to 128, not to 1024.
inline uint32_t window_base() { return 1024 + (uint32_t)(W->serial % 7 + 1) * 128; }
inline uint32_t window(uintptr_t p) { return (uint32_t)(p - (uintptr_t)W->dynamic) + (fault == NOT_ALIGNED ? 1024 : window_base()); }

struct Descriptor {
  uint32_t start, leading, stride; // bytes
  explicit Descriptor(uint64_t d) {
    start = (uint32_t)(d & 0x3fff) << 4;
    leading = (uint32_t)(d >> 16 & 0x3fff) << 4;
    stride = (uint32_t)(d >> 32 & 0x3fff) << 4;
    if (fault == NOT_ALIGNED) start += window_base() - 1024; // where the memory really is
    if (fault == SWAPPED_OFFSETS) std::swap(leading, stride);
    if (fault == WRONG_LEADING) leading *= 2;
    unsigned base = d >> 49 & 7, mode = (unsigned)(d >> 62);
    if (fault == WRONG_STRIDE) stride *= 2;
    if (fault == WRONG_SWIZZLE) mode = 2;
    if (d & 0x3ffe0000c000c000ull & ~(7ull << 49)) die("a matrix descriptor with reserved bits");
    if (base != 0) die("a matrix descriptor with a base offset: not emulated");
    if (mode != 1 && mode != 2) die("a matrix descriptor without a swizzle of 128 bytes: not emulated");
    swizzle = mode == 1 ? 7 : 3;
  }
  unsigned swizzle; // bits of the row that change the chunk
  // at is the window address of row (or column) i at depth k. T: i varies fastest.
  uint32_t at(int i, int k, bool transposed) const {
    uint32_t a = start;
    if (transposed) a += i / 64 * leading + i % 64 * 2 + k / 8 * stride + k % 8 * 128;
    else a += i / 8 * stride + i % 8 * 128 + k * 2; // leading is not used
    return a ^ (a >> 7 & swizzle) << 4;
  }
};

// proxy_chunk reads 8 elements by the asynchronous proxy: all ones, a NaN in both
// types, where this and the generic proxy do not see the same.
inline void proxy_chunk(uint16_t v[8], uint32_t a) {
  Worker *w = W;
  size_t at = (size_t)a - window_base();
  if (a < window_base() || at + 16 > w->dynamic_size) die("wgmma reads outside the dynamic shared memory");
  uint16_t u[8];
  memcpy(v, w->dynamic + at, 16);
  memcpy(u, w->proxy.data() + at, 16);
  for (int i = 0; i < 8; i++)
    if (u[i] != v[i]) v[i] = 0xffff;
}

// One warp's share of a wgmma.mma_async.
struct Product {
  Op type;
  int n;
  bool ta, tb;
  Descriptor a, b;
  float *d[32]; // each lane's n/2 accumulators
  int row;      // of the first of 16
  bool read = false;
  std::vector<float> A, B; // 16 x 16, 16 x n

  // operand reads n rows (or columns) from the first on, 16 deep; the element of row
  // i and depth k goes to out[i*row + k*depth].
  void operand(float *out, const Descriptor &x, bool transposed, int first, int n, int row, int depth) {
    for (int c = 0; c < 2 * n; c++) {
      int i = transposed ? c % (n / 8) * 8 : c / 2, k = transposed ? c / (n / 8) : c % 2 * 8;
      uint16_t v[8];
      proxy_chunk(v, x.at(first + i, k, transposed));
      float *o = out + i * row + k * depth;
      int step = transposed ? row : depth;
      if (type == MMA_F16)
        for (int e = 0; e < 8; e++) o[e * step] = f16_float(v[e]);
      else
        for (int e = 0; e < 8; e++) o[e * step] = bf16_float(v[e]);
    }
  }
  void load() {
    if (read) return;
    read = true;
    A.resize(16 * 16);
    B.resize(16 * n);
    operand(A.data(), a, ta, row, 16, 16, 1);
    operand(B.data(), b, tb, 0, n, 1, n);
  }
};

// Accumulators that the tensor cores hold.
struct Held {
  float *key; // lane 0's
  int n;
  std::vector<float> v;   // 16 x n
  std::vector<float *> d; // the lanes'
};

enum { HELD_BITS = 0x7fc0a5a5 }; // a NaN

struct AsyncWarp {
  std::deque<Product> products;
  std::deque<int> groups; // products in each committed group
  std::deque<Held> held;
  bool fenced = false;
  uint64_t random = 1;
  size_t issued = 0; // instructions that the warpgroup's log has
};

struct Async {
  std::vector<AsyncWarp> warps;
  std::vector<std::vector<uint64_t>> log; // of each warpgroup
};

inline void finish_async(Worker &w);
inline AsyncWarp &async_warp() {
  Worker *w = W;
  if (!w->async) {
    if (w->n % 128) die("wgmma needs whole warpgroups");
    w->async = std::make_shared<Async>();
    w->finish = finish_async;
    w->async->warps.resize(w->n / 32);
    w->async->log.resize(w->n / 128);
    for (size_t i = 0; i < w->async->warps.size(); i++) w->async->warps[i].random = (w->serial * 64 + i + 1) * 0x9e3779b97f4a7c15ull;
  }
  return w->async->warps[w->current->warp];
}

// same_instruction dies when the warps of a warpgroup execute different ones.
inline void same_instruction(AsyncWarp &w, uint64_t what) {
  std::vector<uint64_t> &log = W->async->log[W->current->warp / 4];
  if (w.issued == log.size()) log.push_back(what);
  else if (log[w.issued] != what) die("the warps of a warpgroup execute different wgmma instructions");
  w.issued++;
}

// Where lane l's accumulators i and i+1 lie in 16 x n: the fragment's layout.
inline float *accumulator(std::vector<float> &v, int n, int l, int i) { return &v[((l >> 2) + (i & 2) * 4) * n + i / 4 * 8 + (l & 3) * 2 + (i & 1)]; }

inline Held &hold(AsyncWarp &w, const Product &p) {
  for (Held &h : w.held)
    if (h.key == p.d[0]) {
      if (h.n != p.n) die("wgmma of different shapes on the same accumulators");
      return h;
    }
  if (!w.fenced) die("wgmma on accumulators without a wgmma.fence since the threads had them");
  Held h{p.d[0], p.n, std::vector<float>(16 * p.n), std::vector<float *>(p.d, p.d + 32)};
  for (int l = 0; l < 32; l++)
    for (int i = 0; i < p.n / 2; i++) {
      *accumulator(h.v, p.n, l, i) = p.d[l][i];
      p.d[l][i] = bits_float(HELD_BITS);
    }
  w.held.push_back(std::move(h));
  return w.held.back();
}

inline void give_back(AsyncWarp &w) {
  for (size_t k = 0; k < w.held.size();) {
    Held &h = w.held[k];
    bool busy = false;
    for (const Product &p : w.products) busy |= p.d[0] == h.key;
    if (busy) {
      k++;
      continue;
    }
    for (int l = 0; l < 32; l++)
      for (int i = 0; i < h.n / 2; i++) {
        if (float_bits(h.d[l][i]) != HELD_BITS) die("an accumulator was written while a wgmma had it");
        h.d[l][i] = *accumulator(h.v, h.n, l, i);
      }
    w.held.erase(w.held.begin() + (long)k);
    w.fenced = false;
  }
}

struct WgmmaArg { float *d; uint64_t a, b; Op type; int n; bool ta, tb; };

inline void wgmma_issue(Fiber *f) {
  AsyncWarp &w = async_warp();
  WgmmaArg x = *(WgmmaArg *)f[0].arg;
  for (int l = 1; l < 32; l++) {
    WgmmaArg *y = (WgmmaArg *)f[l].arg;
    if (y->a != x.a || y->b != x.b) die("the lanes of a warp have different matrix descriptors");
  }
  same_instruction(w, (x.a * 31 + x.b) * 31 + (uint64_t)(x.n * 8 + x.ta * 4 + x.tb * 2 + (x.type == MMA_F16)));
  Product p{x.type, x.n, x.ta != (fault == WRONG_TRANSPOSE_A), x.tb != (fault == WRONG_TRANSPOSE_B), Descriptor(x.a), Descriptor(x.b), {}, (int)(W->current->warp & 3) * 16, false, {}, {}};
  for (int l = 0; l < 32; l++) p.d[l] = ((WgmmaArg *)f[l].arg)->d;
  hold(w, p);
  w.products.push_back(std::move(p));
  // Some of those under way read their operands now, others later.
  for (Product &q : w.products) {
    w.random ^= w.random << 13, w.random ^= w.random >> 7, w.random ^= w.random << 17;
    if (w.random % 4 == 0) q.load();
  }
}

inline void wgmma_commit() {
  AsyncWarp &w = async_warp();
  same_instruction(w, 2);
  if (fault == NO_COMMIT) return;
  int n = (int)w.products.size();
  for (int g : w.groups) n -= g;
  w.groups.push_back(n);
}

// wgmma_wait completes the oldest groups, but for the last keep.
inline void wgmma_wait(int keep) {
  AsyncWarp &w = async_warp();
  same_instruction(w, 3 + (uint64_t)keep * 4);
  if (fault == NO_LAST_WAIT && keep == 0) return;
  if (fault == EARLY_REFILL && keep > 0) keep++;
  while ((int)w.groups.size() > keep) {
    for (int i = 0; i < w.groups.front(); i++) {
      Product &p = w.products.front();
      p.load();
      for (Held &h : w.held)
        if (h.key == p.d[0])
          for (int m = 0; m < 16; m++)
            for (int k = 0; k < 16; k++) {
              float a = p.A[m * 16 + k], *b = &p.B[k * p.n], *c = &h.v[m * p.n];
              for (int j = 0; j < p.n; j++) c[j] += a * b[j];
            }
      w.products.pop_front();
    }
    w.groups.pop_front();
  }
  give_back(w);
}

inline void wgmma_fence() {
  AsyncWarp &w = async_warp();
  same_instruction(w, 1);
  if (fault != NO_WGMMA_FENCE) w.fenced = true;
}

// finish_async dies when a block ends with products under way.
inline void finish_async(Worker &w) {
  for (const AsyncWarp &a : w.async->warps) {
    if (!a.products.empty()) die("a block ends with a wgmma that was not waited for");
    if (a.issued != w.async->log[(size_t)(&a - w.async->warps.data()) / 4].size()) die("the warps of a warpgroup execute different numbers of wgmma instructions");
  }
}

// proxy_fence shows the asynchronous proxy what this thread's cp.async wrote: the
// last 64 chunks whose arrival it waited for.
inline void proxy_fence() {
  Worker *w = W;
  Fiber *f = w->current;
  if (fault == NO_PROXY_FENCE) return;
  for (unsigned i = f->narrived > 64 ? f->narrived - 64 : 0; i < f->narrived; i++) {
    unsigned char *p = f->arrivals[i % 64];
    memcpy(w->proxy.data() + (p - w->dynamic), p, 16);
  }
  f->narrived = 0;
}

} // namespace kd
