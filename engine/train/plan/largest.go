package plan

import (
	"fmt"
	"sort"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// Largest is the largest batch_size, up to most, with which knobs fit into the memory of
// device and host. It takes no memory.
func Largest(cfg Config, k Knobs, most int) (int, error) {
	p := newPlans(cfg, k)
	p.readHost()
	p.process = p.room.Held
	var failed error
	n := sort.Search(most, func(i int) bool {
		k := k
		k.Loader.BatchSize = i + 1
		d, err := p.demand(k)
		if err != nil {
			failed = err
			return true
		}
		return !p.fits(d) || !p.fitsHost(k, &d) || !indexed(d.launches)
	})
	switch {
	case failed != nil:
		return 0, failed
	case n == 0:
		return 0, errs.New("find", "the largest batch_size", fmt.Sprintf("not even one sample fits into the memory of %s and its host", p.info.Name),
			"take a smaller model, or free memory").Because(device.ErrOutOfMemory)
	}
	return n, nil
}

// indexed reports whether kernels can count the elements of all buffers in 31 bits.
func indexed(ls []device.Launch) bool {
	for _, l := range ls {
		op, ok := l.Op.(kernels.Op)
		if !ok {
			continue
		}
		for _, a := range op.Args() {
			if a.Len >= 1<<31 {
				return false
			}
		}
	}
	return true
}
