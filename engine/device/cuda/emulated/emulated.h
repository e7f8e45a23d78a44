// An emulated libcuda.so.1: the part of the driver API that gpustall uses, with
// one GPU whose kernels are the project's own .cu files run on the CPU. It is
// for tests: streams are threads with random delays, so that a missing
// dependency shows; modules are the real PTX text, checked against the kernels;
// device memory is poisoned.
//
// Environment: GPUSTALL_EMU_DELAY (longest delay before a command, us; 200),
// GPUSTALL_EMU_SEED (1), GPUSTALL_EMU_MEMORY (MiB; 4096), GPUSTALL_EMU_SM (80),
// GPUSTALL_EMU_PROCESSORS (4), GPUSTALL_EMU_NOOP (launches return at once),
// GPUSTALL_EMU_INIT (what cuInit returns), GPUSTALL_EMU_DRIVER (its CUDA version;
// 12040), GPUSTALL_EMU_FAULT (the launch, from 1, that fails like a kernel that
// touches a wrong address), GPUSTALL_EMU_FAULTY (part of the names of kernels that all
// fail so) and GPUSTALL_EMU_FAULTS (how: "hang" and "crash" instead).
//
// Where NVIDIA's driver refuses or may refuse, this one does: handles of what was
// destroyed, or of a context that is gone; more shared memory than was opted in,
// a kernel's own included; a kernel whose first use is in a capture (lazy loading
// would have to synchronise); PTX that is newer than the driver. Small page-locked
// blocks do not begin at a page.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#define API extern "C" __attribute__((visibility("default"))) int

// Statuses of the driver API.
enum {
  OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, INVALID_DEVICE = 101, INVALID_CONTEXT = 201,
  NO_BINARY_FOR_GPU = 209, INVALID_PTX = 218, UNSUPPORTED_PTX_VERSION = 222, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600,
  ILLEGAL_ADDRESS = 700, CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901, CAPTURE_UNMATCHED = 903, CAPTURE_ISOLATION = 905,
  CAPTURED_EVENT = 907, CAPTURE_WRONG_THREAD = 908, ILLEGAL_STATE = 401
};

namespace emu {

inline long setting(const char *name, long otherwise) {
  const char *v = getenv(name);
  return v && *v ? atol(v) : otherwise;
}

extern std::atomic<uintptr_t> generation; // of the primary context

// An Object is what a handle points to. One that is destroyed is marked and not
// given back, so that a later use is found.
enum Kind : uint32_t { GONE = 0, STREAM = 0x5354524d, EVENT = 0x45564e54, MODULE = 0x4d4f4455, FUNCTION = 0x46554e43, GRAPH = 0x47524150, EXEC = 0x45584543 };
struct Object {
  uint32_t kind;
  uintptr_t born = generation;
  explicit Object(Kind k) : kind(k) {}
};
inline bool live(const void *p, Kind k) {
  const Object *o = (const Object *)p;
  return o && o->kind == k && o->born == generation;
}

// A Record is one passing of an event. Waits keep the one they were made for.
struct Record {
  std::mutex mu;
  std::condition_variable cv;
  bool done = false;
  double ms = 0;
  void complete();
  void wait();
  bool query();
};
using RecordPtr = std::shared_ptr<Record>;

struct Event : Object {
  Event() : Object(EVENT) {}
  RecordPtr latest;    // null: never recorded
  bool timed = true;
  bool captured = false; // recorded into a graph last: cannot be waited for from outside
};

using Command = std::function<void()>;

struct Graph : Object {
  Graph() : Object(GRAPH) {}
  std::vector<Command> nodes;
};

// A Stream is a thread that runs commands in order.
struct Stream : Object {
  std::mutex mu;
  std::condition_variable ready, idle;
  std::deque<Command> queue;
  bool busy = false, stop = false;
  std::minstd_rand random;
  std::unique_ptr<Graph> capture; // commands go here while it lasts
  bool spoilt = false;            // the capture met a call that it forbids
  std::thread::id capturer;
  std::thread thread;

  explicit Stream(unsigned seed);
  void end(); // after what is queued
  void push(Command c); // or adds it to the capture
  void drain();
  bool empty();
  void run();
};

// check returns why no call is possible on this thread: no cuInit, no context.
int check();
// fail makes every later call fail, as a kernel's fault does, until the context goes.
void fail(int status);
// spoil is what a call does that this thread's capture forbids.
int spoil();
// unsafe is check for calls that a capture of this thread forbids; it spoils it.
int unsafe();
Stream *stream(void *s); // null is the default stream
bool is_stream(void *s);
void drain_all();
double now_ms();

struct Memory {
  std::mutex mu;
  std::map<uint64_t, size_t> device, host; // address -> bytes
  size_t held = 0;
  bool on_device(uint64_t p, size_t n);
  bool pinned(const void *p, size_t n);
  void clear(); // with the context
};
Memory &memory();

} // namespace emu
