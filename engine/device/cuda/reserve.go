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

// headroom is what a reservation leaves to the driver, which puts the kernels'
// code and stacks and the captured graphs into the same memory.
func headroom(total int64) int64 { return min(256<<20, total/16) }

// Overhead is the scratch memory of the launches' kernels, whichever variant is
// taken, and the counters.
func (d *Device) Overhead(ls []device.Launch) int64 {
	n := int64(0)
	for _, l := range ls {
		if op, ok := l.Op.(kernels.Op); ok {
			n = max(n, d.scratchOf(op))
		}
	}
	return round(n, alignment) + cudakernels.CounterBytes
}

// scratchOf is the most scratch memory that a variant of op needs.
func (d *Device) scratchOf(op kernels.Op) int64 {
	n, ok := d.scratches[op]
	if ok {
		return n
	}
	for _, config := range cudakernels.Configs(op, d.target) {
		if p, err := cudakernels.NewPlan(op, d.target, config); err == nil {
			n = max(n, int64(p.Scratch))
		}
	}
	d.scratches[op] = n
	return n
}

// lacking is a reservation in the arena's terms: the scratch memory that the device
// would allocate first, and the piece it would take from the driver; free is what
// the driver would give.
func (d *Device) lacking(r device.Reservation) (scratch, piece, free int64, err error) {
	var sizes []int64
	if d.counter == nil || r.Afresh {
		sizes = append(sizes, cudakernels.CounterBytes)
	}
	scratch = d.Overhead(r.Launches) - cudakernels.CounterBytes
	if scratch > 0 && (d.scratch == nil || d.scratch.size < scratch || r.Afresh) {
		sizes = append(sizes, scratch)
	}
	for _, n := range r.Sizes {
		sizes = append(sizes, int64(n))
	}
	if r.Afresh {
		piece = (&arena{}).lacks(sizes, nil, true)
		free, err = d.free(d.mem.size())
		return scratch, piece, free, err
	}
	instead := make(map[*block]bool, len(r.Instead))
	for _, b := range r.Instead {
		if k := d.mem.find(b); k != nil {
			instead[k] = true
		}
	}
	if d.mem.lacks(sizes, instead, false) == 0 {
		return scratch, 0, 0, nil
	}
	piece = d.mem.lacks(sizes, instead, true)
	free, err = d.free(d.mem.idle())
	return scratch, piece, free, err
}

// free is what the driver would give after back bytes were given back to it.
func (d *Device) free(back int64) (n int64, err error) {
	err = d.ctx.Do(func() error {
		left, total, err := cu.MemInfo()
		n = max(0, left+back-headroom(total))
		return err
	})
	return n, errs.Wrap(refused(err), "ask for", "the GPU's free memory", "")
}

// Fits reports whether Reserve would succeed.
func (d *Device) Fits(r device.Reservation) bool {
	_, piece, free, err := d.lacking(r)
	return err == nil && piece <= free
}

// Reserve takes the memory that r lacks from the driver.
func (d *Device) Reserve(r device.Reservation) (int64, error) {
	if d.closed {
		return 0, device.ErrClosed
	}
	if r.Afresh {
		if err := d.giveBack(); err != nil {
			return 0, err
		}
		r.Afresh = false
	}
	scratch, piece, free, err := d.lacking(r)
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
	if err := d.clearCounters(); err != nil {
		return piece, err
	}
	return piece, d.growScratch(scratch)
}

// giveBack gives what the device itself has allocated back, and what nobody uses.
func (d *Device) giveBack() error {
	for _, p := range d.programs {
		if p != nil {
			return errs.New("reserve", "all memory afresh", "programs are prepared", "release them first")
		}
	}
	if err := d.drain(); err != nil {
		return refused(err)
	}
	for _, b := range []*block{d.counter, d.scratch} {
		if b != nil {
			d.mem.free(b)
		}
	}
	d.counter, d.scratch = nil, nil
	d.mem.trim()
	return nil
}

// growScratch makes the memory that programs share hold n bytes. Programs prepared
// before keep what they have.
func (d *Device) growScratch(n int64) error {
	if n <= 0 || d.scratch != nil && d.scratch.size >= n {
		return nil
	}
	b, err := d.mem.alloc(n)
	if err != nil {
		return err
	}
	if d.scratch != nil {
		if err := d.drain(); err != nil {
			return refused(err)
		}
		d.mem.free(d.scratch)
	}
	d.scratch = b
	return nil
}

// claimScratch returns the address of n bytes that programs share.
func (d *Device) claimScratch(p *program, n int64) (uint64, error) {
	if n == 0 {
		return 0, nil
	}
	if err := d.growScratch(n); err != nil {
		return 0, err
	}
	d.scratch.refs++
	p.blocks = append(p.blocks, d.scratch)
	return d.scratch.addr, nil
}
