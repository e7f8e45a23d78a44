package plan

import (
	"errors"
	"fmt"
	"sort"
	"strings"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
	"dev.gpustall/loader"
)

// The host's memory is planned as the device's is: what knobs need of it is added up
// before any is taken. There is no call that would take it at once, and the system
// grants more than there is and kills the process later; so the sum is held against
// what the process may hold (engine/base/host).

// ErrHostMemory is wrapped by the refusal of knobs that need more of the host's memory
// than the process may hold.
var ErrHostMemory = errors.New("out of host memory")

// hostDemand adds up what knobs need of the host's memory, of which d is the device's.
func (p *Plans) hostDemand(k Knobs, d *demand) trace.HostMemory {
	of := k.Loader.Memory(p.cfg.Dataset, p.cfg.Hold)
	m := trace.HostMemory{
		Batches: of.Batches(), Workers: of.Workers,
		Session: trace.SessionBytes(k.Loader.NumWorkers), Process: p.process,
		Mapped: p.cfg.Dataset.Mapped + p.cfg.Test.Dataset.Mapped,
	}
	if k.Loader.PinMemory && p.info.PinNote == "" {
		m.Pinned = m.Batches
	}
	if p.cfg.Saves && p.cfg.Model != nil {
		m.Saved = p.cfg.Model.SavedBytes(p.basisOf(k).Layout)
	}
	if test := p.cfg.Test.Dataset; test.Samples > 0 {
		of := TestKnobs(k.Loader, test.Samples).Memory(test, TestHold)
		m.Evaluation = of.Batches() + of.Workers
	}
	m.Device = d.Memory
	return m
}

// onHost is the demand of knobs on the device, as far as it is one on the host.
func (p *Plans) onHost(k Knobs) (demand, error) {
	if !p.info.OnHost {
		return demand{}, nil
	}
	return p.demand(k)
}

// fitsHost reports whether the host has the memory for knobs. Where it is not known
// what the process may hold, it has.
func (p *Plans) fitsHost(k Knobs, d *demand) bool {
	allowed := p.room.Allowed()
	return allowed == 0 || p.hostDemand(k, d).Total() <= allowed
}

// readHost looks at what the process may hold now.
func (p *Plans) readHost() {
	if f := p.cfg.HostMemory; f != nil {
		p.room = f()
	}
}

// checkHost refuses knobs for which the host has too little memory, or notes what they
// are planned to take.
func (p *Plans) checkHost(k Knobs) error {
	p.readHost()
	d, err := p.onHost(k)
	if err != nil {
		return err
	}
	if !p.fitsHost(k, &d) {
		return p.hostRefusal(k, &d)
	}
	m := p.hostDemand(k, &d)
	if m.Total() > p.hostPlanned.Total() {
		p.hostPlanned = m
	}
	if f := p.cfg.HostPlanned; f != nil {
		f(m)
	}
	return nil
}

// hostRefusal says by part what was planned, and the knobs to lower.
func (p *Plans) hostRefusal(k Knobs, d *demand) error {
	m, has := p.hostDemand(k, d), p.room
	size := units.Prose.Bytes
	whose := "this machine has"
	if has.Cgroup {
		whose = "the cgroup of this process allows"
	}
	reason := fmt.Sprintf("it needs %s of the host's memory (%s), but %s %s", size(m.Total()), m.List(size), whose, size(has.Limit))
	if has.Others >= has.Limit/100 {
		reason += ", of which others hold " + size(has.Others)
	}
	of := k.Loader.Memory(p.cfg.Dataset, p.cfg.Hold)
	object := fmt.Sprintf("%s of batch_size=%d (%s each)", units.Counted(of.Slots, "batch", "batches"), k.Loader.BatchSize, size(of.Slot))
	return errs.New("plan", object, reason, p.hintHost(k)).Because(ErrHostMemory)
}

// hintHost says which knobs to lower, each alone, and how far.
func (p *Plans) hintHost(k Knobs) string {
	fits := func(change func(*loader.Knobs, int), v int) bool {
		k := k
		change(&k.Loader, v)
		d, err := p.onHost(k)
		return err == nil && p.fitsHost(k, &d)
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

// HostMemory is the most of the host's memory that was planned for.
func (p *Plans) HostMemory() trace.HostMemory { return p.hostPlanned }
