package prepared

import (
	"fmt"
	"sort"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
)

// Largest returns the largest batch_size, up to most, with which knobs fit into the
// memory of device and host. It takes no memory.
func Largest(cfg Config, k Knobs, most int) (int, error) {
	s := newSteps(cfg, k)
	s.host.open()
	var failed error
	n := sort.Search(most, func(i int) bool {
		k := k
		k.Loader.BatchSize = i + 1
		n, err := s.est.need(k)
		if err != nil {
			failed = err
			return true
		}
		return !s.budget.fits(&n, s.basis) || !s.host.fits(k, &n) || !n.indexed()
	})
	switch {
	case failed != nil:
		return 0, failed
	case n == 0:
		return 0, errs.New("find", "the largest batch_size", fmt.Sprintf("not even one sample fits into the memory of %s and its host", s.est.info.Name),
			"take a smaller model, or free memory").Because(device.ErrOutOfMemory)
	}
	return n, nil
}
