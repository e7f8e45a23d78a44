//go:build cuda && cgo && linux

package cuda

import (
	"errors"
	"fmt"
	"unsafe"

	"gorgonia.org/cu"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cuda/driver"
	cudakernels "dev.gpustall/kernels/cuda"
)

// grow takes a piece from the driver.
func (d *Device) grow(n int64) (addr uint64, err error) {
	var free, total int64
	err = d.ctx.Do(func() error {
		p, err := cu.MemAlloc(n)
		if err != nil {
			free, total, _ = cu.MemInfo() // for the message alone
		}
		addr = uint64(p)
		return err
	})
	switch {
	case err == nil:
		return addr, nil
	case errors.Is(err, driver.OutOfMemory):
		return 0, errs.New("allocate", onGPU(n),
			fmt.Sprintf("%v: %d of its %d MiB are free, %d held", device.ErrOutOfMemory, free>>20, total>>20, d.mem.held>>20), hintMemory).Because(device.ErrOutOfMemory)
	}
	return 0, errs.Wrap(refused(err), "allocate", onGPU(n), "")
}

func (d *Device) shrink(addr uint64) error {
	return d.ctx.Do(func() error { return cu.MemFree(cu.DevicePtr(addr)) })
}

// clearCounters allocates and clears the kernels' counters, once.
func (d *Device) clearCounters() (err error) {
	if d.counter != nil {
		return nil
	}
	if d.counter, err = d.mem.alloc(cudakernels.CounterBytes); err != nil {
		return err
	}
	return refused(d.ctx.Do(func() error {
		if err := cu.MemsetD8Async(cu.DevicePtr(d.counter.addr), 0, cudakernels.CounterBytes, d.setup); err != nil {
			return err
		}
		return d.setup.Synchronize()
	}))
}

// Alloc returns n bytes of device memory, not cleared.
func (d *Device) Alloc(n int) (device.Buffer, error) {
	if d.closed {
		return device.Buffer{}, device.ErrClosed
	}
	b, err := d.mem.alloc(int64(n))
	if err != nil {
		return device.Buffer{}, err
	}
	return device.Buffer{Addr: b.addr, Size: n}, nil
}

// Free waits for the work enqueued so far and gives b back. A buffer that Alloc
// did not return is ignored.
func (d *Device) Free(b device.Buffer) {
	if d.closed {
		return
	}
	k := d.mem.find(device.Buffer{Addr: b.Addr})
	if k == nil || k.addr != b.Addr || k == d.counter || k == d.scratch {
		return
	}
	_ = d.drain() // a device that failed says so at its next call
	d.mem.free(k)
}

// AllocHost returns n bytes of page-locked memory. Any goroutine may call it.
func (d *Device) AllocHost(n int) ([]byte, error) {
	if n <= 0 {
		return nil, device.NotPositive("host", int64(n))
	}
	d.hostMu.Lock()
	defer d.hostMu.Unlock()
	if d.host == nil {
		return nil, device.ErrClosed
	}
	b, err := d.ctx.HostAlloc(n)
	if err != nil {
		reason, less := err.Error(), "lower prefetch_factor, num_workers or batch_size, or turn pin_memory off"
		if errors.Is(err, driver.OutOfMemory) { // of the host's memory
			reason = "the system refuses"
		}
		return nil, errs.New("page-lock", fmt.Sprintf("%d MiB", n>>20), reason, less).Because(err)
	}
	d.host[unsafe.SliceData(b)] = b
	return b, nil
}

// FreeHost gives back what AllocHost returned. Anything else is ignored.
func (d *Device) FreeHost(b []byte) {
	d.hostMu.Lock()
	defer d.hostMu.Unlock()
	p := unsafe.SliceData(b)
	if whole, ok := d.host[p]; ok {
		delete(d.host, p)
		_ = d.ctx.HostFree(whole) // it is known to be ours
	}
}

// CopyIn enqueues a copy of src to the start of dst. From page-locked memory it
// runs beside the kernels; from other memory the driver moves the bytes through
// a buffer of its own first, on the calling thread.
func (d *Device) CopyIn(s device.Stream, dst device.Buffer, src []byte) error {
	st, err := d.stream("copy in", s)
	if err != nil {
		return err
	}
	if len(src) > dst.Size {
		return device.TooSmall("copy in", len(src), dst)
	}
	if d.mem.find(dst) == nil {
		return device.Foreign("copy in", dst)
	}
	return refused(d.ctx.CopyIn(dst.Addr, src, st))
}

// CopyOut enqueues a copy of the start of src to dst.
func (d *Device) CopyOut(s device.Stream, dst []byte, src device.Buffer) error {
	st, err := d.stream("copy out", s)
	if err != nil {
		return err
	}
	if len(dst) > src.Size {
		return device.TooSmall("copy out", len(dst), src)
	}
	if d.mem.find(src) == nil {
		return device.Foreign("copy out", src)
	}
	return refused(d.ctx.CopyOut(dst, src.Addr, st))
}

// MemoryHeld returns the bytes allocated now, scratch included.
func (d *Device) MemoryHeld() int64 { return d.mem.held }
