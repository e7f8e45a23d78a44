package plan

import (
	"errors"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
)

// place allocates what d's plans share. What is large enough stays, unless memory is
// short: then all plans there are make room.
func (p *Plans) place(d demand) error {
	err := p.allocate(d.input, d.activations)
	if errors.Is(err, device.ErrOutOfMemory) {
		p.freeAll()
		err = p.allocate(d.input, d.activations)
	}
	return err
}

// allocate makes each input slot and the activations at least as large as asked for,
// in bytes, and has the state laid out. What is too small is freed first; the plans
// that point into it go with it.
func (p *Plans) allocate(input, activations int) (err error) {
	if activations > p.activationBytes() {
		p.drop(len(p.plans))
		p.freeActivations()
	}
	if input > p.inputs[0].Size {
		p.drop(len(p.plans))
		p.freeInputs()
	}
	if p.state != nil {
		if err := p.state.Configure(p.Layout); err != nil {
			return err
		}
	}
	for i := range p.inputs {
		if p.inputs[i].Size > 0 {
			continue
		}
		if p.inputs[i], err = p.dev.Alloc(input); err != nil {
			p.inputs[i] = device.Buffer{}
			p.freeInputs()
			return errs.Wrap(err, "allocate", units.Prose.Bytes(int64(input))+" of input", hintMemory)
		}
	}
	if p.activations == nil && activations > 0 {
		p.activations, err = p.cfg.Model.NewActivations(p.dev, activations)
	}
	return err
}

func (p *Plans) activationBytes() int {
	if p.activations == nil {
		return 0
	}
	return p.activations.Buffer().Size
}

// freeAll gives back the plans and all that they share but the parameters.
func (p *Plans) freeAll() {
	p.drop(len(p.plans))
	p.freeInputs()
	p.freeActivations()
}

func (p *Plans) freeInputs() {
	for i, b := range p.inputs {
		if b.Size > 0 {
			p.dev.Free(b)
			p.inputs[i] = device.Buffer{}
		}
	}
}

func (p *Plans) freeActivations() {
	if p.activations != nil {
		p.activations.Free()
		p.activations = nil
	}
}

// gauges are the values of the memory gauges last published.
type gauges struct{ peak, held, planned int64 }

// Publish hands the session the gauges of device memory that changed.
func (p *Plans) Publish() {
	set := func(last *int64, name string, now int64) {
		if now != *last {
			*last = now
			p.rec.Gauge(name, float64(now))
		}
	}
	set(&p.gauges.planned, trace.GaugePlannedBytes, p.planned.Total())
	set(&p.gauges.peak, trace.GaugePeakBytes, p.dev.MemoryPeak())
	if m, ok := p.dev.(device.MemoryMeter); ok {
		set(&p.gauges.held, trace.GaugeHeldBytes, m.MemoryHeld())
	}
}
