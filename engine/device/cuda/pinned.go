//go:build cuda && cgo && linux

package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cuda/driver"
)

// pinned is the page-locked host memory of a device. Any goroutine may use it.
type pinned struct {
	ctx    driver.Context
	mu     sync.Mutex
	blocks map[*byte][]byte // nil once closed
}

func (p *pinned) open(ctx driver.Context) { p.ctx, p.blocks = ctx, make(map[*byte][]byte) }

// close gives back what was not freed. Of several errors it returns the first.
func (p *pinned) close() (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.blocks {
		err = cmp.Or(err, p.ctx.HostFree(b))
	}
	p.blocks = nil
	return err
}

// AllocHost returns n bytes of page-locked memory. Any goroutine may call it.
func (d *Device) AllocHost(n int) ([]byte, error) {
	if n <= 0 {
		return nil, device.NotPositive("host", int64(n))
	}
	d.host.mu.Lock()
	defer d.host.mu.Unlock()
	if d.host.blocks == nil {
		return nil, device.ErrClosed
	}
	b, err := d.host.ctx.HostAlloc(n)
	if err != nil {
		reason, less := err.Error(), "lower prefetch_factor, num_workers or batch_size, or turn pin_memory off"
		if errors.Is(err, driver.OutOfMemory) { // it means the host's memory here
			reason = "the system refuses"
		}
		return nil, errs.New("page-lock", fmt.Sprintf("%d MiB", n>>20), reason, less).Because(err)
	}
	d.host.blocks[unsafe.SliceData(b)] = b
	return b, nil
}

// FreeHost gives back what AllocHost returned. It ignores any other memory.
func (d *Device) FreeHost(b []byte) {
	d.host.mu.Lock()
	defer d.host.mu.Unlock()
	p := unsafe.SliceData(b)
	if whole, ok := d.host.blocks[p]; ok {
		delete(d.host.blocks, p)
		_ = d.host.ctx.HostFree(whole) // it is known to be ours
	}
}
