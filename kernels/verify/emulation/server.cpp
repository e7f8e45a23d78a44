// server.cpp: runs kernels for a test. Commands come on standard input, answers go
// to standard output, numbers are 64-bit in the host's byte order:
//
//   A size                        allocate: the address
//   W address size bytes          write
//   R address size                read: the bytes
//   F                             free everything
//   C                             bank conflicts of ldmatrix since the last C
//   X fault                       inject a fault (fault.h) from now on
//   L name grid[3] block[3] shared reverse n (size value)[n]
//                                 launch: 0, or 1 and what is wrong
//
// Strings and bytes follow their length. Buffers are poisoned with NaNs and end
// at a page that cannot be touched; an access there ends the process with a
// message that names kernel, block and thread.
#include "registry.h"
#include "warp.h"
#include <signal.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

struct Buffer { unsigned char *map; size_t mapped; unsigned char *data; size_t size; };
std::vector<Buffer> buffers;

bool get(void *p, size_t n) { return fread(p, 1, n, stdin) == n; }
uint64_t number() {
  uint64_t v;
  if (!get(&v, 8)) _Exit(0);
  return v;
}
void put(const void *p, size_t n) { fwrite(p, 1, n, stdout); }
void put(uint64_t v) { put(&v, 8); }

uint64_t allocate(size_t n) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (n + 15) & ~(size_t)15, body = (room + page - 1) / page * page;
  Buffer b;
  b.mapped = body + 2 * page;
  b.map = (unsigned char *)mmap(nullptr, b.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (b.map == MAP_FAILED || mprotect(b.map + page, body, PROT_READ | PROT_WRITE)) kd::die("no memory for a buffer");
  memset(b.map + page, 0xff, body);
  b.data = b.map + page + body - room;
  b.size = n;
  buffers.push_back(b);
  return (uint64_t)(uintptr_t)b.data;
}

// intact says whether the bytes around the buffers, up to the guard pages, are
// untouched.
bool intact() {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  for (const Buffer &b : buffers)
    for (unsigned char *p = b.map + page; p < b.map + b.mapped - page; p++)
      if ((p < b.data || p >= b.data + b.size) && *p != 0xff) return false;
  return true;
}

void fault(int, siginfo_t *info, void *) {
  for (const Buffer &b : buffers)
    if ((unsigned char *)info->si_addr >= b.map && (unsigned char *)info->si_addr < b.map + b.mapped) {
      char text[160];
      snprintf(text, sizeof text, "an access %ld bytes from the start of a buffer of %zu", (long)((unsigned char *)info->si_addr - b.data), b.size);
      kd::die(text);
    }
  kd::die("an access outside all buffers");
}

std::string launch() {
  std::string name(number(), 0);
  get(&name[0], name.size());
  uint64_t v[8];
  for (auto &x : v) x = number();
  size_t n = number();
  std::vector<uint64_t> values(n);
  std::vector<uint64_t> sizes(n);
  for (size_t i = 0; i < n; i++) sizes[i] = number(), values[i] = number();
  const kd::Kernel *k = kd::find(name.c_str());
  if (!k) return "no kernel " + name;
  if ((size_t)k->params != n) return name + " has " + std::to_string(k->params) + " parameters, not " + std::to_string(n);
  std::vector<void *> params(n);
  for (size_t i = 0; i < n; i++) {
    if (k->sizes[i] != sizes[i]) return "parameter " + std::to_string(i) + " of " + name + " has " + std::to_string(k->sizes[i]) + " bytes, not " + std::to_string(sizes[i]);
    params[i] = &values[i];
  }
  dim3 grid(v[0], v[1], v[2]), block(v[3], v[4], v[5]);
  if (!v[0] || !v[1] || !v[2] || v[1] > 65535 || v[2] > 65535 || !v[3] || !v[4] || !v[5] || v[3] * v[4] * v[5] > 1024) return "bad grid or block for " + name;
  kd::reverse_order = v[7] != 0;
  k->run(k, grid, block, v[6], params.data());
  if (!intact()) return name + " wrote next to a buffer";
  return "";
}

} // namespace

int main() {
  // The handler needs a stack of its own: a fiber's may be the one that overflowed.
  static unsigned char stack[64 << 10];
  stack_t alt = {};
  alt.ss_sp = stack;
  alt.ss_size = sizeof stack;
  sigaltstack(&alt, nullptr);
  struct sigaction act = {};
  act.sa_sigaction = fault;
  act.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &act, nullptr);
  sigaction(SIGBUS, &act, nullptr);
  for (int c; (c = getchar()) != EOF; fflush(stdout)) switch (c) {
    case 'A': put(allocate(number())); break;
    case 'W': {
      unsigned char *p = (unsigned char *)(uintptr_t)number();
      get(p, number());
      break;
    }
    case 'R': {
      unsigned char *p = (unsigned char *)(uintptr_t)number();
      put(p, number());
      break;
    }
    case 'F':
      for (const Buffer &b : buffers) munmap(b.map, b.mapped);
      buffers.clear();
      break;
    case 'X': kd::fault = (int)number(); break;
    case 'C': put(kd::bank_conflicts.exchange(0)); break;
    case 'L': {
      std::string why = launch();
      put(why.empty() ? 0 : 1);
      if (!why.empty()) put(why.size()), put(why.data(), why.size());
      break;
    }
    default: fprintf(stderr, "server: unknown command %d\n", c); return 1;
    }
}
