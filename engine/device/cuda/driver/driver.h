/* What package driver runs on the C side: each a single call from Go. */
#ifndef GPUSTALL_DRIVER_H
#define GPUSTALL_DRIVER_H
#include <cuda.h>

/* gs_bind makes c current on this thread. The thread remembers what it bound
 * last; gs_forget makes all threads bind anew. */
CUresult gs_bind(CUcontext c);
void gs_forget(void);

enum { GS_ARGS = 24 };

/* One entry of a command buffer: a launch, or, when fn is 0, the Record of the
 * event v[0]. Handles are integers so that Go need not scan them. */
typedef struct {
  uint64_t fn;
  uint32_t grid[3], block[3], shared, n;
  uint64_t v[GS_ARGS]; /* arguments: the low bytes of each */
} gs_command;

CUresult gs_run(CUcontext c, const gs_command *cmd, int n, CUstream s, int *failed);
CUresult gs_load(CUcontext c, CUmodule *m, const char *image, char *log, int size);
CUresult gs_host_alloc(CUcontext c, void **p, size_t n);
CUresult gs_host_free(CUcontext c, void *p);
CUresult gs_alloc_async(CUcontext c, CUdeviceptr *p, size_t n, CUstream s);
CUresult gs_free_async(CUcontext c, CUdeviceptr p, CUstream s);
CUresult gs_record(CUcontext c, CUevent e, CUstream s);
CUresult gs_wait(CUcontext c, CUstream s, CUevent e);
CUresult gs_query(CUcontext c, CUevent e);
CUresult gs_sync(CUcontext c, CUevent e);
CUresult gs_elapsed(CUcontext c, float *ms, CUevent from, CUevent to);
CUresult gs_copy_in(CUcontext c, CUdeviceptr d, const void *p, size_t n, CUstream s);
CUresult gs_copy_out(CUcontext c, void *p, CUdeviceptr d, size_t n, CUstream s);
CUresult gs_capture(CUcontext c, const gs_command *cmd, int n, CUstream s, CUgraphExec *x, int *failed);
CUresult gs_graph_launch(CUcontext c, CUgraphExec x, CUstream s);
void gs_noop(void);
#endif
