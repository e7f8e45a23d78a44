//go:build cuda && cgo && linux

// Package driver is the part of the CUDA driver API that gorgonia.org/cu lacks: page-locked memory,
// launches and whole command buffers in one call, captured graphs, stream-ordered memory, numeric
// errors. Both packages are built on the cuda.h and the lazy libcuda.a in shim.
//
// The calls of a step take a Context and make it current on the calling thread
// first, at the cost of a comparison, so they work from any goroutine. Calls of
// gorgonia.org/cu need Context.Do around them.
//
// PTX 7.0 and what is called need R450 (CUDA 11.0) or later; the wgmma variants are PTX 8.0 for sm_90a, R525.
// Symbols are found by dlsym, each with the version of the signature that is called. A capture may not
// synchronise, so each kernel is loaded when a program is prepared. It is in the mode THREAD_LOCAL, so
// that other threads may go on allocating page-locked memory. A launch over 48 KiB of shared memory opts
// in first. A kernel's fault makes all later calls fail; the GPU can be opened again in the same process.
package driver

/*
#cgo LDFLAGS: -lcuda -ldl
#cgo noescape gs_bind
#cgo nocallback gs_bind
#cgo noescape gs_run
#cgo nocallback gs_run
#cgo noescape gs_record
#cgo nocallback gs_record
#cgo noescape gs_wait
#cgo nocallback gs_wait
#cgo noescape gs_query
#cgo nocallback gs_query
#cgo noescape gs_sync
#cgo nocallback gs_sync
#cgo noescape gs_elapsed
#cgo nocallback gs_elapsed
#cgo noescape gs_copy_in
#cgo nocallback gs_copy_in
#cgo noescape gs_copy_out
#cgo nocallback gs_copy_out
#cgo noescape gs_graph_launch
#cgo nocallback gs_graph_launch
#include "driver.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"gorgonia.org/cu"
)

// Error is a driver status.
type Error int

// The statuses that callers ask about.
const (
	OutOfMemory Error = C.CUDA_ERROR_OUT_OF_MEMORY
	NoDevice    Error = C.CUDA_ERROR_NO_DEVICE
	NotReady    Error = C.CUDA_ERROR_NOT_READY
	OldDriver   Error = C.CUDA_ERROR_UNSUPPORTED_PTX_VERSION
	NoCompiler  Error = C.CUDA_ERROR_JIT_COMPILER_NOT_FOUND
	Uncorrected Error = C.CUDA_ERROR_ECC_UNCORRECTABLE
)

// Kernel reports whether the status is about a faulty kernel, such as one that reads where there is
// no memory. The context is unusable then.
func (e Error) Kernel() bool {
	switch e {
	case C.CUDA_ERROR_ILLEGAL_ADDRESS, C.CUDA_ERROR_LAUNCH_TIMEOUT, C.CUDA_ERROR_ASSERT, C.CUDA_ERROR_HARDWARE_STACK_ERROR,
		C.CUDA_ERROR_ILLEGAL_INSTRUCTION, C.CUDA_ERROR_MISALIGNED_ADDRESS, C.CUDA_ERROR_INVALID_ADDRESS_SPACE,
		C.CUDA_ERROR_INVALID_PC, C.CUDA_ERROR_LAUNCH_FAILED:
		return true
	}
	return false
}

// Error gives the driver's name and text of the status.
func (e Error) Error() string {
	var name, text *C.char
	if C.cuGetErrorName(C.CUresult(e), &name) != 0 || name == nil {
		return fmt.Sprintf("CUDA error %d", int(e))
	}
	if C.cuGetErrorString(C.CUresult(e), &text) != 0 || text == nil {
		return C.GoString(name)
	}
	return C.GoString(name) + ": " + C.GoString(text)
}

func result(r C.CUresult) error {
	if r == 0 {
		return nil
	}
	return Error(r)
}

// ErrNoDriver is returned when there is no libcuda.so.1.
var ErrNoDriver = errors.New("no NVIDIA driver")

// Load loads the driver and initialises it, once.
func Load() error {
	var why *C.char
	switch r := C.cudashim_load(&why); {
	case r == 0:
		return nil
	case r == C.CUDA_ERROR_STUB_LIBRARY:
		return fmt.Errorf("%w: %s", ErrNoDriver, C.GoString(why))
	default:
		return fmt.Errorf("cuInit: %w", Error(r))
	}
}

// Handles of gorgonia.org/cu hold one pointer; each package has C types of its own.
func function(f cu.Function) C.CUfunction { return *(*C.CUfunction)(unsafe.Pointer(&f)) }
func stream(s cu.Stream) C.CUstream       { return *(*C.CUstream)(unsafe.Pointer(&s)) }
func event(e cu.Event) C.CUevent          { return *(*C.CUevent)(unsafe.Pointer(&e)) }

var (
	_ [unsafe.Sizeof(uintptr(0))]byte = [unsafe.Sizeof(cu.Function{})]byte{}
	_ [unsafe.Sizeof(uintptr(0))]byte = [unsafe.Sizeof(cu.Stream{})]byte{}
	_ [unsafe.Sizeof(uintptr(0))]byte = [unsafe.Sizeof(cu.Event{})]byte{}
	_ [unsafe.Sizeof(uintptr(0))]byte = [unsafe.Sizeof(cu.CUContext{})]byte{}
	_ [unsafe.Sizeof(uintptr(0))]byte = [unsafe.Sizeof(cu.Module{})]byte{}
)

// Context is a device's primary context.
type Context struct{ c C.CUcontext }

// Retain retains the primary context of a device.
func Retain(d cu.Device) (Context, error) {
	ctx, err := d.RetainPrimaryCtx()
	return Context{*(*C.CUcontext)(unsafe.Pointer(&ctx))}, err
}

// Release releases the primary context. It must not be used any more.
func (c Context) Release(d cu.Device) error {
	C.gs_forget()
	return d.ReleasePrimaryCtx()
}

// bind makes the context current on the calling thread.
func (c Context) bind() error { return result(C.gs_bind(c.c)) }

// Do runs f with the context current, on one OS thread. A status of gorgonia.org/cu
// that f returns comes back as an Error.
func (c Context) Do(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.bind(); err != nil {
		return err
	}
	return own(cu.Success, f())
}

// own turns a status of type S into an Error. S has no exported name in its package.
func own[S ~int](_ S, err error) error {
	if s, ok := err.(S); ok { //nolint:errorlint // f returned it as it is
		return Error(s)
	}
	return err
}

// LoadModule compiles PTX for the context's device. The error carries the
// compiler's log.
func (c Context) LoadModule(ptx []byte) (cu.Module, error) {
	image := C.CString(string(ptx))
	defer C.free(unsafe.Pointer(image))
	const size = 8192
	log := (*C.char)(C.calloc(1, size))
	defer C.free(unsafe.Pointer(log))
	var m C.CUmodule
	if err := result(C.gs_load(c.c, &m, image, log, size)); err != nil {
		if text := C.GoString(log); text != "" {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return cu.Module{}, err
	}
	return *(*cu.Module)(unsafe.Pointer(&m)), nil
}

// HostAlloc returns page-locked memory, outside the Go heap. Any goroutine may call it.
func (c Context) HostAlloc(n int) ([]byte, error) {
	var p unsafe.Pointer
	if err := result(C.gs_host_alloc(c.c, &p, C.size_t(n))); err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), n), nil
}

// HostFree gives back what HostAlloc returned.
func (c Context) HostFree(b []byte) error {
	return result(C.gs_host_free(c.c, unsafe.Pointer(unsafe.SliceData(b))))
}

// AllocAsync and FreeAsync allocate from the device's pool, in stream order.
func (c Context) AllocAsync(n int, s cu.Stream) (uint64, error) {
	var p C.CUdeviceptr
	err := result(C.gs_alloc_async(c.c, &p, C.size_t(n), stream(s)))
	return uint64(p), err
}

// FreeAsync enqueues on s that what AllocAsync returned is given back.
func (c Context) FreeAsync(p uint64, s cu.Stream) error {
	return result(C.gs_free_async(c.c, C.CUdeviceptr(p), stream(s)))
}

// MaxDynamicShared raises the dynamic shared memory that f may be launched with.
func MaxDynamicShared(f cu.Function, n int) error {
	return result(C.cuFuncSetAttribute(function(f), C.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, C.int(n)))
}

// SharedOptin returns the bytes of shared memory a block may opt in to.
func SharedOptin(d cu.Device) (int, error) {
	var v C.int
	err := result(C.cuDeviceGetAttribute(&v, C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, C.CUdevice(d)))
	return int(v), err
}

// UUID names d as NVML does: 8-4-4-4-12 hexadecimal digits, without a prefix. For a part of a GPU
// (MIG) it is the part's, from CUDA 11.4 on.
func UUID(d cu.Device) (string, error) {
	var u C.CUuuid
	r := C.cuDeviceGetUuidV2(&u, C.CUdevice(d))
	if r == C.CUDA_ERROR_NOT_FOUND {
		r = C.cuDeviceGetUuid(&u, C.CUdevice(d))
	}
	b := C.GoBytes(unsafe.Pointer(&u), C.int(unsafe.Sizeof(u)))
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]), result(r)
}

// Record records e on s.
func (c Context) Record(e cu.Event, s cu.Stream) error {
	return result(C.gs_record(c.c, event(e), stream(s)))
}

// Wait makes later work on s wait for e's latest Record.
func (c Context) Wait(s cu.Stream, e cu.Event) error {
	return result(C.gs_wait(c.c, stream(s), event(e)))
}

// Query reports whether e's latest Record has completed.
func (c Context) Query(e cu.Event) (bool, error) {
	r := C.gs_query(c.c, event(e))
	if r == C.CUDA_ERROR_NOT_READY {
		return false, nil
	}
	return r == 0, result(r)
}

// Sync blocks until e's latest Record has completed.
func (c Context) Sync(e cu.Event) error { return result(C.gs_sync(c.c, event(e))) }

// Elapsed returns the time between two Records. The driver counts it in float32
// milliseconds with a resolution of half a microsecond.
func (c Context) Elapsed(from, to cu.Event) (time.Duration, error) {
	var ms C.float
	err := result(C.gs_elapsed(c.c, &ms, event(from), event(to)))
	return time.Duration(float64(ms) * 1e6), err
}

// CopyIn enqueues a copy of src to dst.
func (c Context) CopyIn(dst uint64, src []byte, s cu.Stream) error {
	return result(C.gs_copy_in(c.c, C.CUdeviceptr(dst), unsafe.Pointer(unsafe.SliceData(src)), C.size_t(len(src)), stream(s)))
}

// CopyOut enqueues a copy of src to dst.
func (c Context) CopyOut(dst []byte, src uint64, s cu.Stream) error {
	return result(C.gs_copy_out(c.c, unsafe.Pointer(unsafe.SliceData(dst)), C.CUdeviceptr(src), C.size_t(len(dst)), stream(s)))
}
