// Device and page-locked memory, and copies. Both lie in host memory.
#include "emulated.h"
#include <sys/mman.h>

namespace emu {

Memory &memory() {
  static Memory *m = new Memory;
  return *m;
}

static bool within(const std::map<uint64_t, size_t> &ranges, uint64_t p, size_t n) {
  auto it = ranges.upper_bound(p);
  if (it == ranges.begin()) return false;
  --it;
  return p - it->first <= it->second && n <= it->second - (p - it->first);
}
bool Memory::on_device(uint64_t p, size_t n) {
  std::lock_guard<std::mutex> l(mu);
  return within(device, p, n);
}
bool Memory::pinned(const void *p, size_t n) {
  std::lock_guard<std::mutex> l(mu);
  return within(host, (uint64_t)p, n);
}

static size_t total() { return (size_t)setting("GPUSTALL_EMU_MEMORY", 4096) << 20; }

static void *map(size_t n) {
  void *p = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

// More would touch memory that a test never uses.
static const size_t POISON = 64 << 20;

static int allocate(uint64_t *out, size_t n) {
  Memory &m = memory();
  std::lock_guard<std::mutex> l(m.mu);
  if (!n) return INVALID_VALUE;
  if (n > total() - m.held) return OUT_OF_MEMORY;
  void *p = map(n);
  if (!p) return OUT_OF_MEMORY;
  memset(p, 0xff, n < POISON ? n : POISON); // NaNs: memory is not clear
  m.device[(uint64_t)p] = n;
  m.held += n;
  *out = (uint64_t)p;
  return OK;
}

static int release(uint64_t p) {
  Memory &m = memory();
  std::lock_guard<std::mutex> l(m.mu);
  auto it = m.device.find(p);
  if (it == m.device.end()) return INVALID_VALUE;
  munmap((void *)p, it->second);
  m.held -= it->second;
  m.device.erase(it);
  return OK;
}

// Small blocks lie in a piece with others, away from its start.
static size_t offset(size_t n) { return n < (1 << 20) ? 512 : 0; }

void Memory::clear() {
  std::lock_guard<std::mutex> l(mu);
  for (auto &d : device) munmap((void *)d.first, d.second);
  for (auto &h : host) munmap((void *)(h.first - offset(h.second)), h.second + offset(h.second));
  device.clear();
  host.clear();
  held = 0;
}

} // namespace emu

using namespace emu;

API cuMemAlloc_v2(uint64_t *p, size_t n) {
  if (int r = unsafe()) return r;
  return allocate(p, n);
}
API cuMemFree_v2(uint64_t p) {
  if (int r = unsafe()) return r;
  drain_all();
  return release(p);
}
API cuMemAllocAsync(uint64_t *p, size_t n, void *) {
  if (int r = check()) return r;
  return allocate(p, n);
}
API cuMemFreeAsync(uint64_t p, void *s) {
  if (int r = check()) return r;
  if (!is_stream(s)) return INVALID_HANDLE;
  if (!memory().on_device(p, 1)) return INVALID_VALUE;
  stream(s)->push([p] { release(p); });
  return OK;
}
API cuMemGetInfo_v2(size_t *free_bytes, size_t *all) {
  if (int r = check()) return r;
  Memory &m = memory();
  std::lock_guard<std::mutex> l(m.mu);
  *all = total();
  *free_bytes = total() - m.held;
  return OK;
}
API cuMemHostAlloc(void **p, size_t n, unsigned) {
  if (int r = unsafe()) return r;
  Memory &m = memory();
  std::lock_guard<std::mutex> l(m.mu);
  if (!n) return INVALID_VALUE;
  if (!(*p = map(n + offset(n)))) return OUT_OF_MEMORY;
  *p = (char *)*p + offset(n);
  m.host[(uint64_t)*p] = n;
  return OK;
}
API cuMemFreeHost(void *p) {
  if (int r = unsafe()) return r;
  drain_all();
  Memory &m = memory();
  std::lock_guard<std::mutex> l(m.mu);
  auto it = m.host.find((uint64_t)p);
  if (it == m.host.end()) return INVALID_VALUE;
  munmap((char *)p - offset(it->second), it->second + offset(it->second));
  m.host.erase(it);
  return OK;
}
API cuMemsetD8Async(uint64_t p, unsigned char v, size_t n, void *s) {
  if (int r = check()) return r;
  if (!is_stream(s)) return INVALID_HANDLE;
  if (!memory().on_device(p, n)) return INVALID_VALUE;
  stream(s)->push([=] { memset((void *)p, v, n); });
  return OK;
}
API cuMemsetD8_v2(uint64_t p, unsigned char v, size_t n) {
  int r = cuMemsetD8Async(p, v, n, nullptr);
  if (!r) stream(nullptr)->drain();
  return r;
}

// The host memory of a copy to the device is read when the stream comes to it,
// page-locked or not: the API allows the driver to be that late with both ("might
// be synchronous"), and a caller that reuses the memory early must be found out.
API cuMemcpyHtoDAsync_v2(uint64_t d, const void *p, size_t n, void *s) {
  if (int r = check()) return r;
  if (!is_stream(s)) return INVALID_HANDLE;
  if (!memory().on_device(d, n)) return INVALID_VALUE;
  stream(s)->push([=] { memcpy((void *)d, p, n); });
  return OK;
}
// A copy from the device returns at once only with page-locked memory.
API cuMemcpyDtoHAsync_v2(void *p, uint64_t d, size_t n, void *s) {
  bool pinned = memory().pinned(p, n);
  if (int r = pinned ? check() : unsafe()) return r;
  if (!is_stream(s)) return INVALID_HANDLE;
  if (!memory().on_device(d, n)) return INVALID_VALUE;
  stream(s)->push([=] { memcpy(p, (void *)d, n); });
  if (!pinned) stream(s)->drain();
  return OK;
}
API cuMemcpyDtoDAsync_v2(uint64_t d, uint64_t p, size_t n, void *s) {
  if (int r = check()) return r;
  if (!is_stream(s)) return INVALID_HANDLE;
  if (!memory().on_device(d, n) || !memory().on_device(p, n)) return INVALID_VALUE;
  stream(s)->push([=] { memcpy((void *)d, (void *)p, n); });
  return OK;
}
API cuMemcpyHtoD_v2(uint64_t d, const void *p, size_t n) {
  int r = unsafe();
  if (!r) r = cuMemcpyHtoDAsync_v2(d, p, n, nullptr);
  if (!r) stream(nullptr)->drain();
  return r;
}
API cuMemcpyDtoH_v2(void *p, uint64_t d, size_t n) {
  int r = unsafe();
  if (!r) r = cuMemcpyDtoHAsync_v2(p, d, n, nullptr);
  if (!r) stream(nullptr)->drain();
  return r;
}
