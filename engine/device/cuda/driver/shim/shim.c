/* The functions of cuda.h as lazy forwarders to the NVIDIA driver: dlopen on the
 * first call, dlsym once for each function. Built as a static libcuda.a, which
 * is what -lcuda finds, so that a binary starts on a machine without a driver
 * and is linked to nothing of NVIDIA's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include "cuda.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void *lib;
static CUresult loaded = CUDA_ERROR_STUB_LIBRARY; /* the real cuInit's result, once there is a library */
static const char *why = "";

static void load(void) {
  const char *own = getenv("GPUSTALL_LIBCUDA"); /* tests and unusual installations */
  /* Where the loader does not look: WSL, containers that mount the driver. */
  const char *names[] = {"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1",
                         "/usr/lib64-nvidia/libcuda.so.1"};
  int n = sizeof names / sizeof *names;
  if (own && *own) {
    names[0] = own;
    n = 1;
  }
  for (int i = 0; i < n && !lib; i++) {
    lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!lib && i == 0) {
      const char *text = dlerror();
      why = text ? strdup(text) : "dlopen failed";
    }
  }
  if (!lib) return;
  why = "";
  CUresult (*init)(unsigned) = (CUresult(*)(unsigned))dlsym(lib, "cuInit");
  loaded = init ? init(0) : CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND;
  if (loaded == CUDA_ERROR_STUB_LIBRARY) why = "the libcuda.so.1 found is the CUDA toolkit's stub";
}

CUresult cudashim_load(const char **text) {
  pthread_once(&once, load);
  if (text) *text = why;
  return loaded;
}

int cudashim_has(const char *symbol) { return cudashim_load(NULL) == CUDA_SUCCESS && dlsym(lib, symbol) != NULL; }

/* gorgonia.org/cu calls cuInit when its package is initialised and ends the
 * process when that fails, so here it always succeeds; the real one runs at the
 * first real call. */
CUresult cuInit(unsigned flags) {
  (void)flags;
  return CUDA_SUCCESS;
}

static void *resolve(_Atomic(void *) *slot, const char *symbol, CUresult *err) {
  CUresult r = cudashim_load(NULL);
  int tells = lib && !strncmp(symbol, "cuGetError", 10); /* names and texts need no cuInit */
  if (r != CUDA_SUCCESS && !tells) {
    *err = r == CUDA_ERROR_STUB_LIBRARY ? CUDA_ERROR_NO_DEVICE : r;
    return NULL;
  }
  void *fn = dlsym(lib, symbol);
  if (!fn) {
    *err = CUDA_ERROR_NOT_FOUND;
    return NULL;
  }
  atomic_store_explicit(slot, fn, memory_order_release);
  return fn;
}

#define CUAPI(name, symbol, params, args)                                                    \
  CUresult name params {                                                                     \
    static _Atomic(void *) slot_;                                                            \
    void *fn_ = atomic_load_explicit(&slot_, memory_order_acquire);                          \
    CUresult err_;                                                                           \
    if (__builtin_expect(!fn_, 0) && !(fn_ = resolve(&slot_, symbol, &err_))) return err_;   \
    return ((CUresult(*) params)fn_) args;                                                   \
  }
#include "cuda_api.h"
