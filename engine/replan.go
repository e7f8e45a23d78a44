package engine

import (
	"errors"
	"fmt"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/nn"
	"dev.gpustall/loader"
)

// open plans the memory of the run, takes it, and places what lasts as long.
func (p *planner) open(e *Engine) error {
	p.e, p.capture = e, e.applied.Capture
	p.form = p.formOf(e.applied)
	p.useTuned(p.form.tuned)
	d, err := p.measured(e.applied)
	if err != nil {
		return err
	}
	if err := p.reserve(e.applied, d, false); err != nil {
		return fmt.Errorf("plan the run on %s: %w", e.info.Name, err)
	}
	if e.cfg.Model == nil {
		return p.place(d)
	}
	if p.state, err = nn.NewState(e.dev, e.cfg.Model, e.cfg.Seed); err != nil {
		return fmt.Errorf("place the model's parameters on %s: %w", e.info.Name, err)
	}
	if err := p.state.Configure(p.form.typ, p.form.accumulate); err != nil {
		return err
	}
	if p.untuned(d) {
		if err := p.tuneFirst(d); err != nil {
			return err
		}
	}
	return p.place(d)
}

// warm builds the plans that the first epoch needs, before the run's clock starts.
func (p *planner) warm() error {
	k := p.e.applied.Loader
	for _, n := range p.batches(k) {
		if err := p.ahead(k, n); err != nil {
			return err
		}
	}
	return nil
}

// place allocates what d's plans stand on. What is large enough stays, unless
// memory is short: then the plans there are make room.
func (p *planner) place(d demand) error {
	err := p.tryPlace(d)
	if errors.Is(err, device.ErrOutOfMemory) {
		p.freeAll()
		err = p.tryPlace(d)
	}
	return err
}

func (p *planner) tryPlace(d demand) error {
	if p.arena != nil && d.activations > p.arena.Size() {
		p.drop(len(p.plans))
		p.freeArena()
	}
	if d.input > p.inputs[0].Size {
		p.drop(len(p.plans))
		p.freeInputs()
	}
	if p.state != nil {
		if err := p.state.Configure(p.form.typ, p.form.accumulate); err != nil {
			return err
		}
	}
	if err := p.growInputs(d.input); err != nil {
		return err
	}
	if p.arena != nil || d.activations == 0 {
		return nil
	}
	var err error
	p.arena, err = p.e.cfg.Model.NewArena(p.e.dev, d.activations)
	return err
}

// apply puts the knobs in force and builds the plan they need, so that what does
// not fit is refused now, with the old knobs still good. Parameters stay where
// they are.
func (p *planner) apply(k Knobs) error {
	if k.Capture != p.capture {
		if err := p.recapture(k.Capture); err != nil {
			return err
		}
	}
	n := min(k.Loader.BatchSize, p.e.cfg.Dataset.Info().Samples)
	l := loader.NewLayout(p.e.cfg.Dataset.Info(), n, k.Loader.DeviceTransforms)
	if p.formOf(k) == p.form && p.find(planKey{n, l.Size, k.Loader.DeviceTransforms}) != nil {
		return p.ahead(k.Loader, n)
	}
	p.useTuned(k.Autotune)
	d, err := p.measured(k)
	if err != nil {
		return err
	}
	tune := p.untuned(d)
	err = p.reserve(k, d, tune)
	if errors.Is(err, device.ErrOutOfMemory) && p.fitsAfresh(d) {
		err = p.move(d)
	}
	if err != nil {
		return err
	}
	if err := p.e.finish(); err != nil {
		return err
	}
	if p.formOf(k) != p.form {
		p.drop(len(p.plans))
		p.form = p.formOf(k)
	}
	if tune { // in the memory of the plans there are
		d.input = max(d.input, p.inputs[0].Size)
		if p.arena != nil {
			d.activations = max(d.activations, p.arena.Size())
		}
		p.freeAll()
		if err := p.tuneLive(d); err != nil {
			return err
		}
	}
	if err := p.place(d); err != nil {
		return err
	}
	return p.ahead(k.Loader, n)
}

// restore goes back to what was in force before an apply that failed, or whose
// knobs the loader refused. Plans are built again when batches ask for them.
func (p *planner) restore(f form, capture bool) error {
	p.useTuned(f.tuned)
	if p.form != f {
		p.drop(len(p.plans))
		p.form = f
	}
	if p.capture != capture {
		return p.recapture(capture)
	}
	return nil
}

// recapture switches the plans there are; later ones follow p.capture.
func (p *planner) recapture(on bool) error {
	if err := p.e.finish(); err != nil {
		return err
	}
	p.capture = on
	for _, q := range p.plans {
		for _, prog := range q.programs() {
			if prog.ID == 0 {
				continue
			}
			if err := p.setCapture(prog.ID, on); err != nil {
				return err
			}
		}
	}
	return nil
}
