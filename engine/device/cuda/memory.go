//go:build cuda && cgo && linux

package cuda

import (
	"errors"
	"fmt"

	"gorgonia.org/cu"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cuda/driver"
	"dev.gpustall/kernels"
	cudakernels "dev.gpustall/kernels/cuda"
)

// memory is the GPU's memory: the arena that allocations come from, and what kernels need
// besides their buffers. The device owns it.
type memory struct {
	arena
	ctx    driver.Context
	setup  cu.Stream
	target cudakernels.Target

	scratch   *block // shared by the programs prepared last; nil before the first
	counter   *block // cudakernels.CounterBytes, cleared once; nil before the first kernel
	scratches map[kernels.Op]int64
}

func (m *memory) open(ctx driver.Context, setup cu.Stream, t cudakernels.Target) {
	m.ctx, m.setup, m.target = ctx, setup, t
	m.scratches = make(map[kernels.Op]int64)
	m.grow, m.shrink = m.takePiece, m.returnPiece
}

// takePiece takes n bytes from the driver.
func (m *memory) takePiece(n int64) (addr uint64, err error) {
	var free, total int64
	err = m.ctx.Do(func() error {
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
			fmt.Sprintf("%v: %d of its %d MiB are free, %d held", device.ErrOutOfMemory, free>>20, total>>20, m.held>>20), hintMemory).Because(device.ErrOutOfMemory)
	}
	return 0, errs.Wrap(refused(err), "allocate", onGPU(n), "")
}

func (m *memory) returnPiece(addr uint64) error {
	return m.ctx.Do(func() error { return cu.MemFree(cu.DevicePtr(addr)) })
}

// clearCounters allocates and clears the kernels' counters, once.
func (m *memory) clearCounters() (err error) {
	if m.counter != nil {
		return nil
	}
	if m.counter, err = m.alloc(cudakernels.CounterBytes); err != nil {
		return err
	}
	return refused(m.ctx.Do(func() error {
		if err := cu.MemsetD8Async(cu.DevicePtr(m.counter.addr), 0, cudakernels.CounterBytes, m.setup); err != nil {
			return err
		}
		return m.setup.Synchronize()
	}))
}

// scratchOf returns the most scratch memory that a variant of op needs.
func (m *memory) scratchOf(op kernels.Op) int64 {
	n, ok := m.scratches[op]
	if ok {
		return n
	}
	for _, config := range cudakernels.Configs(op, m.target) {
		if p, err := cudakernels.NewPlan(op, m.target, config); err == nil {
			n = max(n, int64(p.Scratch))
		}
	}
	m.scratches[op] = n
	return n
}

// growScratch makes the memory that programs share hold n bytes. Programs prepared
// before keep what they have.
func (m *memory) growScratch(n int64) error {
	if n <= 0 || m.scratch != nil && m.scratch.size >= n {
		return nil
	}
	b, err := m.alloc(n)
	if err != nil {
		return err
	}
	if m.scratch != nil {
		if err := m.ctx.Do(cu.Synchronize); err != nil {
			return refused(err)
		}
		m.free(m.scratch)
	}
	m.scratch = b
	return nil
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

// Free waits for the work enqueued so far and gives b back. It ignores a buffer that Alloc
// did not return.
func (d *Device) Free(b device.Buffer) {
	if d.closed {
		return
	}
	k := d.mem.find(device.Buffer{Addr: b.Addr})
	if k == nil || k.addr != b.Addr || k == d.mem.counter || k == d.mem.scratch {
		return
	}
	_ = d.drain() // a device that failed says so at its next call
	d.mem.free(k)
}

// MemoryHeld returns the bytes allocated now, scratch included.
func (d *Device) MemoryHeld() int64 { return d.mem.held }

// MemoryPeak returns the most bytes of device memory handed out at once.
func (d *Device) MemoryPeak() int64 { return d.mem.peak }

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
