package engine

import (
	"errors"
	"fmt"
	"slices"
	"sort"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/nn"
	"dev.gpustall/engine/trace"
	"dev.gpustall/loader"
)

// demand is what the plans of some knobs need: those of the full batch and of the
// epoch's last one.
type demand struct {
	trace.Memory
	form        form
	input       int             // bytes of an input slot
	activations int             // bytes of the arena
	full        []device.Launch // of the full batch's plan, without buffers
	launches    []device.Launch // of all
}

// batches are the sizes of an epoch's batches.
func (p *planner) batches(k loader.Knobs) []int {
	n := p.e.cfg.Dataset.Info().Samples
	out := []int{min(k.BatchSize, n)}
	if rest := n % k.BatchSize; rest != 0 && n > k.BatchSize && !k.DropLast {
		out = append(out, rest)
	}
	return out
}

func (p *planner) demand(k Knobs) (demand, error) {
	d := demand{form: p.formOf(k)}
	m := p.e.cfg.Model
	for i, n := range p.batches(k.Loader) {
		l := loader.NewLayout(p.e.cfg.Dataset.Info(), n, k.Loader.DeviceTransforms)
		d.input = max(d.input, l.Size)
		if m == nil {
			continue
		}
		c := p.config(d.form, n, k.Loader.DeviceTransforms)
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
	d.Inputs, d.Activations = int64(inputSlots*d.input), int64(d.activations)
	if m != nil {
		for _, n := range m.StateSizes(d.form.typ, d.form.accumulate) {
			d.Parameters += int64(n)
		}
		d.Parameters += maxPlans * inputSlots * nn.MetricsSize
	}
	return d, nil
}

// measured is demand with what the device takes itself.
func (p *planner) measured(k Knobs) (demand, error) {
	d, err := p.demand(k)
	if r, ok := p.e.dev.(device.Reserver); ok && err == nil {
		d.Kernels = r.Overhead(d.launches)
	}
	return d, err
}

// config is the plan of n samples, but for its buffers.
func (p *planner) config(f form, n int, onDev bool) nn.PlanConfig {
	mean, std := p.e.cfg.Transform.Normalisation()
	return nn.PlanConfig{
		Batch: n, DeviceTransforms: onDev, Mean: mean, Std: std,
		Type: f.typ, Accumulate: f.accumulate, Checkpoint: f.checkpoint,
	}
}

// reservation says what place will allocate for d and what it will free before.
// With again, everything but the parameters is freed and allocated anew.
func (p *planner) reservation(d demand, again bool) device.Reservation {
	r := device.Reservation{Launches: d.launches}
	m, inputs, arena := p.e.cfg.Model, p.inputs[0].Size, 0
	switch {
	case m != nil && p.state == nil:
		r.Sizes = m.StateSizes(d.form.typ, d.form.accumulate)
	case m != nil:
		r.Sizes = p.state.Missing(d.form.typ, d.form.accumulate)
	}
	if p.arena != nil {
		arena = p.arena.Size()
	}
	if again {
		d.input, d.activations = max(d.input, inputs), max(d.activations, arena)
	}
	if again || d.input > inputs {
		r.Sizes = append(r.Sizes, slices.Repeat([]int{d.input}, inputSlots)...)
		if inputs > 0 {
			r.Instead = append(r.Instead, p.inputs[:]...)
		}
	}
	if m == nil {
		return r
	}
	if again || d.activations > arena {
		r.Sizes = append(r.Sizes, d.activations)
		if arena > 0 {
			r.Instead = append(r.Instead, p.arena.Buffer())
		}
	}
	metrics := maxPlans * inputSlots
	drop := again || d.input > inputs || d.activations > arena || d.form != p.form
	for _, q := range p.plans {
		for _, net := range q.nets {
			if drop {
				r.Instead = append(r.Instead, net.Metrics)
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
func (p *planner) reserve(k Knobs, d demand, again bool) error {
	if !p.fits(d, again) {
		return p.refusal(k, d, again, nil)
	}
	if r, ok := p.e.dev.(device.Reserver); ok {
		took, err := r.Reserve(p.reservation(d, again))
		if errors.Is(err, device.ErrOutOfMemory) {
			return p.refusal(k, d, again, err)
		}
		if err != nil {
			return err
		}
		if took > 0 && p.reserved > 0 {
			p.e.rec.Note("info", fmt.Sprintf("device memory: took %s more beside %s", trace.Bytes(took), trace.Bytes(p.reserved)))
		}
		p.reserved += took
	}
	p.plan(d)
	return nil
}

// plan notes the most that was planned for.
func (p *planner) plan(d demand) {
	p.launches = d.launches
	if d.Total() > p.planned.Total() {
		p.planned = d.Memory
	}
}

// fits reports whether d can be had. Devices that reserve nothing know at least
// how much there is.
func (p *planner) fits(d demand, again bool) bool {
	if r, ok := p.e.dev.(device.Reserver); ok {
		return r.Fits(p.reservation(d, again))
	}
	return p.e.info.Memory == 0 || d.Total() <= p.e.info.Memory
}

// refusal says by part what was planned, and the knob to lower.
func (p *planner) refusal(k Knobs, d demand, again bool, cause error) error {
	if r, ok := p.e.dev.(device.Reserver); ok && cause == nil {
		_, cause = r.Reserve(p.reservation(d, again)) // it says how much is free
	}
	if cause == nil {
		cause = fmt.Errorf("%s has %s: %w", p.e.info.Name, trace.Bytes(p.e.info.Memory), device.ErrOutOfMemory)
	}
	advice := "lower batch_size"
	full := k.Loader.BatchSize
	// With the kernels' scratch memory of the plan refused, which is hardly less.
	wouldFit := func(batch int, checkpoint bool) bool {
		k := k
		k.Loader.BatchSize, k.Checkpoint = batch, checkpoint
		o, err := p.demand(k)
		o.Kernels, o.launches = d.Kernels, d.launches
		return err == nil && (p.fits(o, again) || p.fitsAfresh(o))
	}
	if n := sort.Search(full-1, func(i int) bool { return !wouldFit(i+1, k.Checkpoint) }); n > 0 {
		advice += fmt.Sprintf(" to %d", n)
	} else {
		advice = "take a smaller model, or free memory of the device: not even batch_size=1 fits"
	}
	if !k.Checkpoint && wouldFit(full, true) {
		advice += ", or turn checkpointing on"
	}
	return fmt.Errorf("batch_size=%d in %s needs %s of device memory (%s), but %w; %s",
		full, k.Precision, trace.Bytes(d.Total()), d.Memory, cause, advice)
}

// Memory is the most device memory that the run has planned for. It belongs to the
// step loop's goroutine, or to anyone once Run has returned.
func (e *Engine) Memory() trace.Memory { return e.plans.planned }
