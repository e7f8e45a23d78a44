//go:build cuda && cgo && linux

package cuda

import (
	"fmt"

	"gorgonia.org/cu"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
	cudakernels "dev.gpustall/kernels/cuda"
)

// headroom returns how many bytes a reservation leaves to the driver. The driver puts the kernels'
// code and stacks and the captured graphs into the same memory.
func headroom(total int64) int64 { return min(256<<20, total/16) }

// Overhead returns the scratch memory of the launches' kernels, whichever variant is
// taken, and the counters.
func (d *Device) Overhead(ls []device.Launch) int64 { return d.mem.overhead(ls) }

// Fits reports whether Reserve would succeed.
func (d *Device) Fits(r device.Reservation) bool {
	_, piece, free, err := d.mem.lacking(r)
	return err == nil && piece <= free
}

// Reserve takes the memory that r lacks from the driver.
func (d *Device) Reserve(r device.Reservation) (int64, error) {
	if d.closed {
		return 0, device.ErrClosed
	}
	if r.Afresh {
		for range d.programs.All() {
			return 0, errs.New("reserve", "all memory afresh", "programs are prepared", "release them first")
		}
		if err := d.mem.giveBack(); err != nil {
			return 0, err
		}
		r.Afresh = false
	}
	scratch, piece, free, err := d.mem.lacking(r)
	if err != nil {
		return 0, err
	}
	if piece > free {
		return 0, errs.New("reserve", onGPU(piece),
			fmt.Sprintf("%d MiB more are needed and %d of the GPU's %d MiB are free", piece>>20, free>>20, d.info.Memory>>20), hintMemory).Because(device.ErrOutOfMemory)
	}
	if piece > 0 {
		d.mem.trim()
		if err := d.mem.reserve(piece); err != nil {
			return 0, err
		}
	}
	if err := d.mem.clearCounters(); err != nil {
		return piece, err
	}
	return piece, d.mem.growScratch(scratch)
}

func (m *memory) overhead(ls []device.Launch) int64 {
	n := int64(0)
	for _, l := range ls {
		if op, ok := l.Op.(kernels.Op); ok {
			n = max(n, m.scratchOf(op))
		}
	}
	return round(n, alignment) + cudakernels.CounterBytes
}

// lacking returns what a reservation needs. scratch is the memory that the device allocates first,
// piece is what it takes from the driver, and free is what the driver has left.
func (m *memory) lacking(r device.Reservation) (scratch, piece, free int64, err error) {
	var sizes []int64
	if m.counter == nil || r.Afresh {
		sizes = append(sizes, cudakernels.CounterBytes)
	}
	scratch = m.overhead(r.Launches) - cudakernels.CounterBytes
	if scratch > 0 && (m.scratch == nil || m.scratch.size < scratch || r.Afresh) {
		sizes = append(sizes, scratch)
	}
	for _, n := range r.Sizes {
		sizes = append(sizes, int64(n))
	}
	if r.Afresh {
		piece = (&arena{}).lacks(sizes, nil, true)
		free, err = m.available(m.size())
		return scratch, piece, free, err
	}
	instead := make(map[*block]bool, len(r.Instead))
	for _, b := range r.Instead {
		if k := m.find(b); k != nil {
			instead[k] = true
		}
	}
	if m.lacks(sizes, instead, false) == 0 {
		return scratch, 0, 0, nil
	}
	piece = m.lacks(sizes, instead, true)
	free, err = m.available(m.idle())
	return scratch, piece, free, err
}

// available returns how many bytes the driver could give after back bytes were given back to it.
func (m *memory) available(back int64) (n int64, err error) {
	err = m.ctx.Do(func() error {
		left, total, err := cu.MemInfo()
		n = max(0, left+back-headroom(total))
		return err
	})
	return n, errs.Wrap(refused(err), "ask for", "the GPU's free memory", "")
}

// giveBack gives back what the device itself has allocated, and what nobody uses.
func (m *memory) giveBack() error {
	if err := m.ctx.Do(cu.Synchronize); err != nil {
		return refused(err)
	}
	for _, b := range []*block{m.counter, m.scratch} {
		if b != nil {
			m.free(b)
		}
	}
	m.counter, m.scratch = nil, nil
	m.trim()
	return nil
}
