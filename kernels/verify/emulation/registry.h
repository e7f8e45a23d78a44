// registry.h: the emulated kernels by the names of their entry points.
//
// registry.cpp holds them all: compile it into whatever launches them, with
// -std=c++17 -O2 -pthread, and -march=native where that serves.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <utility>
#include "fiber.h"

namespace kd {

// A kernel as cuLaunchKernel sees it: params points to one pointer for each
// parameter. run returns when the grid has run; it may be called from several
// threads at once. It ends the process, with a message, when the kernel does
// what no GPU forgives.
struct Kernel {
  const char *name;
  int params;
  const uint8_t *sizes; // bytes of each parameter
  void (*run)(const Kernel *k, dim3 grid, dim3 block, size_t shared, void **params);
  void (*fn)();
};

// find returns nullptr when there is no such kernel.
const Kernel *find(const char *name);
void add(const Kernel &k);

template <class... A> struct Call {
  void (*fn)(A...);
  void **params;
  template <size_t... I> void call(std::index_sequence<I...>) { fn(*(A *)params[I]...); }
  static void thread(void *c) { ((Call *)c)->call(std::index_sequence_for<A...>{}); }
  static void run(const Kernel *k, dim3 grid, dim3 block, size_t shared, void **params) {
    Call c{(void (*)(A...))k->fn, params};
    launch(k->name, grid, block, shared, thread, &c);
  }
};

// An Entry registers a kernel at start.
struct Entry {
  template <class... A> Entry(const char *name, void (*fn)(A...)) {
    static const uint8_t sizes[] = {sizeof(A)..., 0};
    add({name, (int)sizeof...(A), sizes, Call<A...>::run, (void (*)())fn});
  }
};

} // namespace kd
