package prepared

import (
	"errors"
	"fmt"
	"sort"
	"strings"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
	"dev.gpustall/loader"
)

// ErrHostMemory is what the refusal wraps if knobs need more of the host's memory than
// the process may hold.
var ErrHostMemory = errors.New("out of host memory")

// hostBudget compares what knobs need of the host's memory with what the process may hold
// (engine/base/host). That memory cannot be taken in advance, because the system grants
// more than there is and ends the process later. It belongs to Steps.
type hostBudget struct {
	est     *estimator
	room    host.Memory      // what the process may hold, as it was last read
	process int64            // bytes that it held before anything was planned
	largest trace.HostMemory // the most that was planned for
}

// open reads what the process holds before anything is planned.
func (h *hostBudget) open() {
	h.read()
	h.process = h.room.Held
}

// read looks at what the process may hold now.
func (h *hostBudget) read() {
	if f := h.est.cfg.HostMemory; f != nil {
		h.room = f()
	}
}

// check refuses knobs for which the host has too little memory, or notes what they are
// planned to take.
func (h *hostBudget) check(k Knobs) error {
	h.read()
	n, err := h.onHost(k)
	if err != nil {
		return err
	}
	if !h.fits(k, &n) {
		return h.refusal(k, &n)
	}
	m := h.est.host(k, &n, h.process)
	if m.Total() > h.largest.Total() {
		h.largest = m
	}
	if f := h.est.cfg.HostPlanned; f != nil {
		f(m)
	}
	return nil
}

// onHost returns what knobs need of the device's memory, if that memory is the host's.
func (h *hostBudget) onHost(k Knobs) (need, error) {
	if !h.est.info.OnHost {
		return need{}, nil
	}
	return h.est.need(k)
}

// fits reports whether the host has the memory for knobs. Everything fits where it is
// unknown what the process may hold.
func (h *hostBudget) fits(k Knobs, n *need) bool {
	allowed := h.room.Allowed()
	return allowed == 0 || h.total(k, n) <= allowed
}

func (h *hostBudget) total(k Knobs, n *need) int64 {
	m := h.est.host(k, n, h.process)
	return m.Total()
}

// refusal says by part what was planned, and the knobs to lower.
func (h *hostBudget) refusal(k Knobs, n *need) error {
	m, has := h.est.host(k, n, h.process), h.room
	size := units.Prose.Bytes
	whose := "this machine has"
	if has.Cgroup {
		whose = "the cgroup of this process allows"
	}
	reason := fmt.Sprintf("it needs %s of the host's memory (%s), but %s %s", size(m.Total()), m.List(size), whose, size(has.Limit))
	if has.Others >= has.Limit/100 {
		reason += ", of which others hold " + size(has.Others)
	}
	of := k.Loader.Memory(h.est.cfg.Dataset, h.est.cfg.Hold)
	object := fmt.Sprintf("%s of batch_size=%d (%s each)", units.Counted(of.Slots, "batch", "batches"), k.Loader.BatchSize, size(of.Slot))
	return errs.New("plan", object, reason, h.hint(k)).Because(ErrHostMemory)
}

// hint says which knobs to lower, each alone, and how far.
func (h *hostBudget) hint(k Knobs) string {
	fits := func(change func(*loader.Knobs, int), v int) bool {
		k := k
		change(&k.Loader, v)
		n, err := h.onHost(k)
		return err == nil && h.fits(k, &n)
	}
	most := func(now, least int, change func(*loader.Knobs, int)) int {
		return least - 1 + sort.Search(now-least, func(i int) bool { return !fits(change, least+i) })
	}
	var ways []string
	if n := most(k.Loader.BatchSize, 1, func(k *loader.Knobs, n int) { k.BatchSize = n }); n > 0 {
		ways = append(ways, fmt.Sprintf("batch_size to %d", n))
	}
	if n := most(k.Loader.NumWorkers, 1, func(k *loader.Knobs, n int) { k.NumWorkers = n }); n > 0 {
		ways = append(ways, fmt.Sprintf("num_workers to %d", n))
	}
	if n := most(k.Loader.Prefetch(), 1, func(k *loader.Knobs, n int) { k.PrefetchFactor = n }); n > 0 {
		ways = append(ways, fmt.Sprintf("prefetch_factor to %d", n))
	}
	switch {
	case len(ways) > 0:
		return "lower " + strings.Join(ways, " or ")
	case k.Loader.NumWorkers > 0 && fits(func(k *loader.Knobs, n int) {
		k.BatchSize, k.NumWorkers, k.PrefetchFactor, k.PersistentWorkers = n, 0, 0, false
	}, 1):
		return "lower num_workers and batch_size: with either alone it does not fit"
	}
	return "raise the limit, or take a smaller model or data set: not even batch_size=1 fits"
}
