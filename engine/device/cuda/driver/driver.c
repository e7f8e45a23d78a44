//go:build cuda

#include "driver.h"
#include <stdatomic.h>

static atomic_uint bindings = 1; /* raised when a context goes away */
static __thread CUcontext bound;
static __thread unsigned bound_at;

CUresult gs_bind(CUcontext c) {
  unsigned now = atomic_load_explicit(&bindings, memory_order_relaxed);
  if (__builtin_expect(bound == c && bound_at == now, 1)) return CUDA_SUCCESS;
  CUresult r = cuCtxSetCurrent(c);
  if (r == CUDA_SUCCESS) {
    bound = c;
    bound_at = now;
  }
  return r;
}

void gs_forget(void) {
  atomic_fetch_add(&bindings, 1);
  cuCtxSetCurrent(NULL);
}

#define BIND(c)              \
  do {                       \
    CUresult b_ = gs_bind(c); \
    if (b_) return b_;       \
  } while (0)

static CUresult run(const gs_command *cmd, int n, CUstream s, int *failed) {
  void *params[GS_ARGS];
  for (int i = 0; i < n; i++) {
    const gs_command *k = &cmd[i];
    CUresult r;
    if (!k->fn) {
      r = cuEventRecord((CUevent)(uintptr_t)k->v[0], s);
    } else {
      for (uint32_t a = 0; a < k->n; a++) params[a] = (void *)&k->v[a];
      r = cuLaunchKernel((CUfunction)(uintptr_t)k->fn, k->grid[0], k->grid[1], k->grid[2], k->block[0], k->block[1], k->block[2], k->shared, s,
                         params, NULL);
    }
    if (__builtin_expect(r != CUDA_SUCCESS, 0)) {
      *failed = i;
      return r;
    }
  }
  return CUDA_SUCCESS;
}

CUresult gs_run(CUcontext c, const gs_command *cmd, int n, CUstream s, int *failed) {
  BIND(c);
  return run(cmd, n, s, failed);
}

/* gs_capture records the commands into a graph. Only this thread is barred from
 * calls that a capture forbids, so that others may go on allocating slots. */
CUresult gs_capture(CUcontext c, const gs_command *cmd, int n, CUstream s, CUgraphExec *x, int *failed) {
  BIND(c);
  CUgraph g = NULL;
  CUresult r = cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  if (r) return r;
  r = run(cmd, n, s, failed);
  CUresult end = cuStreamEndCapture(s, &g);
  if (!r) r = end;
  if (!r) r = cuGraphInstantiateWithFlags(x, g, 0);
  if (r == CUDA_ERROR_NOT_FOUND && g) r = cuGraphInstantiateLog(x, g, NULL, NULL, 0); /* before CUDA 11.4 */
  if (g) cuGraphDestroy(g);
  return r;
}

CUresult gs_graph_launch(CUcontext c, CUgraphExec x, CUstream s) {
  BIND(c);
  return cuGraphLaunch(x, s);
}

CUresult gs_load(CUcontext c, CUmodule *m, const char *image, char *log, int size) {
  BIND(c);
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, (void *)(uintptr_t)size};
  return cuModuleLoadDataEx(m, image, 2, options, values);
}

CUresult gs_host_alloc(CUcontext c, void **p, size_t n) {
  BIND(c);
  return cuMemHostAlloc(p, n, CU_MEMHOSTALLOC_PORTABLE);
}

CUresult gs_host_free(CUcontext c, void *p) {
  BIND(c);
  return cuMemFreeHost(p);
}

CUresult gs_alloc_async(CUcontext c, CUdeviceptr *p, size_t n, CUstream s) {
  BIND(c);
  return cuMemAllocAsync(p, n, s);
}

CUresult gs_free_async(CUcontext c, CUdeviceptr p, CUstream s) {
  BIND(c);
  return cuMemFreeAsync(p, s);
}

CUresult gs_record(CUcontext c, CUevent e, CUstream s) {
  BIND(c);
  return cuEventRecord(e, s);
}

CUresult gs_wait(CUcontext c, CUstream s, CUevent e) {
  BIND(c);
  return cuStreamWaitEvent(s, e, 0);
}

CUresult gs_query(CUcontext c, CUevent e) {
  BIND(c);
  return cuEventQuery(e);
}

CUresult gs_sync(CUcontext c, CUevent e) {
  BIND(c);
  return cuEventSynchronize(e);
}

CUresult gs_elapsed(CUcontext c, float *ms, CUevent from, CUevent to) {
  BIND(c);
  return cuEventElapsedTime(ms, from, to);
}

CUresult gs_copy_in(CUcontext c, CUdeviceptr d, const void *p, size_t n, CUstream s) {
  BIND(c);
  return n ? cuMemcpyHtoDAsync(d, p, n, s) : CUDA_SUCCESS;
}

CUresult gs_copy_out(CUcontext c, void *p, CUdeviceptr d, size_t n, CUstream s) {
  BIND(c);
  return n ? cuMemcpyDtoHAsync(p, d, n, s) : CUDA_SUCCESS;
}

void gs_noop(void) {}
