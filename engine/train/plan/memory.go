package plan

import (
	"errors"
	"fmt"
	"slices"
	"sort"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/loader"
)

// demand is what the plans of some knobs need: those of the full batch and of the
// epoch's last one, and of evaluations.
type demand struct {
	trace.Memory
	basis       basis
	input       int             // bytes of an input slot
	activations int             // bytes of the activations
	full        []device.Launch // of the full batch's plan, without buffers
	launches    []device.Launch // of all
}

// batches are the batches of an epoch, the full one first.
func (p *Plans) batches(k Knobs) []Key {
	return batches(p.cfg.Dataset.Samples, k.Loader, false)
}

// tests are the batches of an evaluation, if there is one.
func (p *Plans) tests(k Knobs) []Key {
	n := p.cfg.Test.Dataset.Samples
	if n == 0 {
		return nil
	}
	return batches(n, TestKnobs(k.Loader, n), true)
}

func batches(n int, k loader.Knobs, test bool) []Key {
	out := []Key{{min(k.BatchSize, n), k.DeviceTransforms, test}}
	if rest := n % k.BatchSize; rest != 0 && n > k.BatchSize && !k.DropLast {
		out = append(out, Key{rest, k.DeviceTransforms, test})
	}
	return out
}

// demand adds up what knobs need.
func (p *Plans) demand(k Knobs) (demand, error) {
	d, err := p.demandOfBuffers(k)
	if err == nil && p.overhead != nil {
		d.Kernels = p.overhead.Overhead(d.launches)
	}
	return d, err
}

// demandOfBuffers is demand without the kernels' scratch memory, which takes longer
// to find out.
func (p *Plans) demandOfBuffers(k Knobs) (demand, error) {
	d := demand{basis: p.basisOf(k)}
	m := p.cfg.Model
	for i, key := range append(p.batches(k), p.tests(k)...) {
		d.input = max(d.input, p.layout(key).Size)
		if m == nil {
			continue
		}
		c := p.config(d.basis, key)
		activations, err := m.Memory(c)
		if err != nil {
			return d, err
		}
		launches, err := m.Launches(c)
		if err != nil {
			return d, err
		}
		d.activations = max(d.activations, activations)
		d.launches = append(d.launches, launches...)
		if i == 0 {
			d.full = launches
		}
	}
	d.Inputs, d.Activations = int64(Slots*d.input), int64(d.activations)
	if m != nil {
		for _, n := range m.StateSizes(d.basis.Layout) {
			d.Parameters += int64(n)
		}
		d.Parameters += maxPlans * Slots * nn.MetricsSize
	}
	return d, nil
}

// reservation says what place will allocate for d and what it will free before.
func (p *Plans) reservation(d demand) device.Reservation {
	r := device.Reservation{Launches: d.launches}
	m, inputs, activations := p.cfg.Model, p.inputs[0].Size, p.activationBytes()
	switch {
	case m != nil && p.state == nil:
		r.Sizes = m.StateSizes(d.basis.Layout)
	case m != nil:
		r.Sizes = p.state.Missing(d.basis.Layout)
	}
	if d.input > inputs {
		r.Sizes = append(r.Sizes, slices.Repeat([]int{d.input}, Slots)...)
		if inputs > 0 {
			r.Instead = append(r.Instead, p.inputs[:]...)
		}
	}
	if m == nil {
		return r
	}
	if d.activations > activations {
		r.Sizes = append(r.Sizes, d.activations)
		if activations > 0 {
			r.Instead = append(r.Instead, p.activations.Buffer())
		}
	}
	metrics := maxPlans * Slots
	drop := d.input > inputs || d.activations > activations || d.basis != p.basis
	for _, q := range p.plans {
		for i := range q.slots {
			if drop {
				r.Instead = append(r.Instead, q.slots[i].net.Metrics)
			} else {
				metrics--
			}
		}
	}
	r.Sizes = append(r.Sizes, slices.Repeat([]int{nn.MetricsSize}, metrics)...)
	return r
}

// reserve takes what d lacks from the device's driver, or says what to lower. The
// plans in force stay as they are.
func (p *Plans) reserve(k Knobs, d demand) error {
	if !p.fits(d) {
		return p.refusal(k, d, nil)
	}
	if p.reserver != nil {
		took, err := p.reserver.Reserve(p.reservation(d))
		if errors.Is(err, device.ErrOutOfMemory) {
			return p.refusal(k, d, err)
		}
		if err != nil {
			return err
		}
		if took > 0 && p.reserved > 0 {
			p.rec.Note("info", fmt.Sprintf("device memory: took %s more beside %s", units.Prose.Bytes(took), units.Prose.Bytes(p.reserved)))
		}
		p.reserved += took
	}
	p.planFor(d)
	return nil
}

// planFor notes what memory is now planned for.
func (p *Plans) planFor(d demand) {
	p.launches = d.launches
	if d.Total() > p.planned.Total() {
		p.planned = d.Memory
	}
}

// fits reports whether d can be had. Of a device that reserves nothing it is known
// how much there is in all.
func (p *Plans) fits(d demand) bool {
	if p.reserver != nil {
		return p.reserver.Fits(p.reservation(d))
	}
	return p.info.Memory == 0 || d.Total() <= p.info.Memory
}

// hintMemory is what there is to do about too little memory, where no better is known.
const hintMemory = "lower batch_size"

// refusal says by part what was planned, and the knob to lower.
func (p *Plans) refusal(k Knobs, d demand, cause error) error {
	if p.reserver != nil && cause == nil {
		_, cause = p.reserver.Reserve(p.reservation(d)) // it says how much is free
	}
	if cause == nil {
		cause = errs.Reason(fmt.Sprintf("%s has %s", p.info.Name, units.Prose.Bytes(p.info.Memory)), "").Because(device.ErrOutOfMemory)
	}
	advice := hintMemory
	full := k.Loader.BatchSize
	// With the scratch memory of the refused plan, which is hardly less.
	wouldFit := func(batch int, checkpoint bool) bool {
		k := k
		k.Loader.BatchSize, k.Checkpoint = batch, checkpoint
		o, err := p.demandOfBuffers(k)
		o.Kernels, o.launches = d.Kernels, d.launches
		return err == nil && (p.fits(o) || p.fitsAfresh(o))
	}
	if n := sort.Search(full-1, func(i int) bool { return !wouldFit(i+1, k.Checkpoint) }); n > 0 {
		advice += fmt.Sprintf(" to %d", n)
	} else {
		advice = "take a smaller model, or free memory of the device: not even batch_size=1 fits"
	}
	if !k.Checkpoint && wouldFit(full, true) {
		advice += ", or turn checkpointing on"
	}
	reason := fmt.Sprintf("it needs %s of device memory (%s), but %s",
		units.Prose.Bytes(d.Total()), d.List(units.Prose.Bytes), errs.Explain(cause).Reason)
	return errs.New("plan", fmt.Sprintf("batch_size=%d in %s", full, k.Precision), reason, advice).Because(cause)
}

// Memory is the most that was planned for.
func (p *Plans) Memory() trace.Memory { return p.planned }
