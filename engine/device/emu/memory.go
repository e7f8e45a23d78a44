package emu

import (
	"fmt"
	"slices"
	"time"
	"unsafe"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// base is where device addresses start; none is a host address by design.
const base = 0x7f00_0000_0000

// arena accounts for device memory that does not exist: addresses are never
// used twice, only the sum of sizes is limited.
type arena struct {
	size, held, peak int64
	next             uint64
	live             []device.Buffer // sorted: addresses only grow
}

func (a *arena) alloc(n int) (device.Buffer, error) {
	if n <= 0 {
		return device.Buffer{}, device.NotPositive("device", int64(n))
	}
	if int64(n) > a.size-a.held {
		return device.Buffer{}, errs.New("allocate", fmt.Sprintf("%d MiB on the emulated device", n>>20),
			fmt.Sprintf("%v: %d MiB of its %d MiB are held", device.ErrOutOfMemory, a.held>>20, a.size>>20), "lower batch_size").Because(device.ErrOutOfMemory)
	}
	b := device.Buffer{Addr: base + a.next, Size: n}
	a.next += uint64(n+255) &^ 255
	a.held += int64(n)
	a.peak = max(a.peak, a.held)
	a.live = append(a.live, b)
	return b, nil
}

// find returns the index of the last allocation at or below addr, or -1.
func (a *arena) find(addr uint64) int {
	lo, hi := 0, len(a.live)
	for lo < hi {
		mid := (lo + hi) / 2
		if a.live[mid].Addr <= addr {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo - 1
}

func (a *arena) holds(b device.Buffer) bool {
	i := a.find(b.Addr)
	return i >= 0 && b.Size >= 0 && b.Addr-a.live[i].Addr+uint64(b.Size) <= uint64(a.live[i].Size)
}

func (a *arena) free(b device.Buffer) {
	if i := a.find(b.Addr); i >= 0 && a.live[i].Addr == b.Addr {
		a.held -= int64(a.live[i].Size)
		a.live = slices.Delete(a.live, i, i+1)
	}
}

// model checks a launch's buffers and returns its time.
func (d *Device) model(l device.Launch) (t time.Duration, err error) {
	if l.Op == nil {
		return 0, device.ErrNoOperation
	}
	switch op := l.Op.(type) {
	case Fixed:
		return op.Duration, nil
	case kernels.Op:
		args := op.Args()
		if err := kernels.Check(args, len(l.Bufs), func(i int) int { return l.Bufs[i].Size }); err != nil {
			return 0, err
		}
		for i, a := range args {
			if !d.mem.holds(l.Bufs[i]) {
				return 0, fmt.Errorf("buffer %d (%s): %w", i, a.Name, device.Foreign("", l.Bufs[i]))
			}
		}
		return d.preset.Card.Time(op)
	}
	return 0, fmt.Errorf("%w: it has no model of %s", device.ErrUnsupported, l.Op.Name())
}

// Alloc accounts for n bytes of the card's memory.
func (d *Device) Alloc(n int) (device.Buffer, error) {
	if d.closed {
		return device.Buffer{}, device.ErrClosed
	}
	return d.mem.alloc(n)
}

// Free gives b back. A buffer that Alloc did not return is ignored.
func (d *Device) Free(b device.Buffer) { d.mem.free(b) }

// MemoryPeak returns the most bytes accounted for at once.
func (d *Device) MemoryPeak() int64 { return d.mem.peak }

// MemoryHeld returns the bytes allocated now.
func (d *Device) MemoryHeld() int64 { return d.mem.held }

// pinned is a range of host memory from AllocHost.
type pinned struct{ from, to uintptr }

const page = 4096

// AllocHost returns n bytes that the model counts as page-locked. They start on
// a page and are not really locked.
func (d *Device) AllocHost(n int) ([]byte, error) {
	if n <= 0 {
		return nil, device.NotPositive("host", int64(n))
	}
	b := make([]byte, n+page)
	off := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (page - 1))
	b = b[off : off+n : off+n]
	from := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	d.hostMu.Lock()
	defer d.hostMu.Unlock()
	d.host = append(d.host, pinned{from, from + uintptr(n)})
	return b, nil
}

// FreeHost gives back what AllocHost returned.
func (d *Device) FreeHost(b []byte) {
	p := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	d.hostMu.Lock()
	defer d.hostMu.Unlock()
	d.host = slices.DeleteFunc(d.host, func(h pinned) bool { return h.from == p })
}

func (d *Device) isPinned(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	p := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	d.hostMu.Lock()
	defer d.hostMu.Unlock()
	for _, h := range d.host {
		if p >= h.from && p+uintptr(len(b)) <= h.to {
			return true
		}
	}
	return false
}
