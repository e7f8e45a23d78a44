// Start, the device, its context and errors.
#include "emulated.h"

namespace emu {

static std::atomic<bool> started{false};
static std::atomic<int> retained{0};
std::atomic<uintptr_t> generation{0};
static std::atomic<int> fault{0};
static thread_local uintptr_t current = 0;

static uintptr_t context() { return 0x10000 + generation * 16; }

int check() {
  if (!started) return NOT_INITIALIZED;
  if (retained <= 0 || current != context()) return INVALID_CONTEXT;
  return fault;
}

void fail(int status) { fault = status; }

} // namespace emu

using namespace emu;

API cuInit(unsigned) {
  int r = (int)setting("GPUSTALL_EMU_INIT", 0);
  started = r == OK;
  return r;
}
API cuDriverGetVersion(int *v) {
  *v = (int)setting("GPUSTALL_EMU_DRIVER", 12040);
  return OK;
}
API cuDeviceGetCount(int *n) {
  if (!started) return NOT_INITIALIZED;
  *n = (int)setting("GPUSTALL_EMU_DEVICES", 1);
  return OK;
}
API cuDeviceGet(int *d, int i) {
  if (!started) return NOT_INITIALIZED;
  *d = i;
  return i >= 0 && i < setting("GPUSTALL_EMU_DEVICES", 1) ? OK : INVALID_DEVICE;
}
API cuDeviceGetName(char *s, int n, int) {
  snprintf(s, (size_t)n, "Emulated GPU (sm_%ld, on the CPU)", setting("GPUSTALL_EMU_SM", 80));
  return OK;
}
API cuDeviceGetUuid(char *u, int d) {
  memset(u, 0xee, 16);
  u[15] = (char)(0xee + d);
  return OK;
}
API cuDeviceGetUuid_v2(char *u, int d) { return cuDeviceGetUuid(u, d); }
API cuDeviceTotalMem_v2(size_t *n, int) {
  *n = (size_t)setting("GPUSTALL_EMU_MEMORY", 4096) << 20;
  return OK;
}
API cuDeviceGetAttribute(int *v, int a, int) {
  int sm = (int)setting("GPUSTALL_EMU_SM", 80);
  switch (a) {
  case 1: *v = 1024; break;                                             // MAX_THREADS_PER_BLOCK
  case 8: *v = 48 << 10; break;                                         // MAX_SHARED_MEMORY_PER_BLOCK
  case 10: *v = 32; break;                                              // WARP_SIZE
  case 16: *v = (int)setting("GPUSTALL_EMU_PROCESSORS", 4); break;      // MULTIPROCESSOR_COUNT
  case 75: *v = sm / 10; break;                                         // COMPUTE_CAPABILITY_MAJOR
  case 76: *v = sm % 10; break;                                         // COMPUTE_CAPABILITY_MINOR
  case 97: *v = (sm >= 90 ? 227 : sm == 80 ? 163 : sm == 70 ? 96 : sm == 75 ? 64 : 99) << 10; break; // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
  case 115: *v = 1; break;                                              // MEMORY_POOLS_SUPPORTED
  default: *v = 0;
  }
  return OK;
}
API cuDevicePrimaryCtxSetFlags_v2(int, unsigned) { return OK; }
API cuDevicePrimaryCtxRetain(void **c, int d) {
  if (!started) return NOT_INITIALIZED;
  if (d < 0 || d >= setting("GPUSTALL_EMU_DEVICES", 1)) return INVALID_DEVICE;
  retained++; // one context serves all: a process opens one GPU at a time
  *c = (void *)context();
  return OK;
}
API cuDevicePrimaryCtxRelease_v2(int) {
  if (retained <= 0) return INVALID_CONTEXT;
  drain_all();
  if (--retained == 0) { // whoever still has it bound has nothing
    generation++;
    fault = 0;
    memory().clear();
  }
  return OK;
}
API cuCtxSetCurrent(void *c) {
  current = (uintptr_t)c;
  return !c || current == context() ? OK : INVALID_CONTEXT;
}
API cuCtxGetCurrent(void **c) {
  *c = (void *)current;
  return OK;
}
API cuCtxSynchronize(void) {
  if (int r = unsafe()) return r;
  drain_all();
  return check();
}

static const struct { int code; const char *name, *text; } errors[] = {
    {OK, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream"},
    {CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "attempt to terminate a thread-local capture sequence from another thread"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
    {CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream"},
};
API cuGetErrorName(int r, const char **s) {
  for (auto &e : errors)
    if (e.code == r) { *s = e.name; return OK; }
  *s = nullptr;
  return INVALID_VALUE;
}
API cuGetErrorString(int r, const char **s) {
  for (auto &e : errors)
    if (e.code == r) { *s = e.text; return OK; }
  *s = nullptr;
  return INVALID_VALUE;
}
