package plan

import (
	"errors"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/train/nn"
)

// Open plans the memory of a run, takes it, and allocates what lasts as long as the
// run. Warm builds the plans.
func Open(cfg Config, k Knobs) (*Plans, error) {
	p := newPlans(cfg, k)
	if err := p.open(k); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func newPlans(cfg Config, k Knobs) *Plans {
	p := &Plans{cfg: cfg, dev: cfg.Device, info: cfg.Device.Info(), rec: cfg.Recorder}
	p.reserver, _ = p.dev.(device.Reserver)
	p.overhead, _ = p.dev.(device.Overheader)
	p.tuner, _ = p.dev.(device.Tuner)
	p.inForce = inForce{p.basisOf(k), k.Capture}
	return p
}

func (p *Plans) open(k Knobs) error {
	p.readHost()
	p.process = p.room.Held
	if err := p.checkHost(k); err != nil {
		return err
	}
	p.useTuned(p.tuned)
	d, err := p.demand(k)
	if err != nil {
		return err
	}
	if !p.fits(d) {
		return p.refusal(k, d, nil)
	}
	// Before the memory is taken: variants are tried in memory of their own.
	if p.untuned(d) > 0 {
		if err := p.tune(d); err != nil {
			return err
		}
	}
	if err := p.reserve(k, d); err != nil {
		return err
	}
	if p.cfg.Model != nil {
		if p.state, err = nn.NewState(p.dev, p.cfg.Model, p.cfg.Seed); err != nil {
			return errs.Wrap(err, "place", "the model's parameters on "+p.info.Name, hintMemory)
		}
		if err := p.state.Configure(p.Layout); err != nil {
			return err
		}
	}
	return p.place(d)
}

// Warm builds the plans that the first epoch needs, before the run's clock starts.
func (p *Plans) Warm(k Knobs) error {
	for _, key := range p.batches(k) {
		if p.find(key) != nil {
			continue
		}
		if _, err := p.build(key); err != nil {
			return err
		}
	}
	return nil
}

// Apply puts knobs in force and builds the plan of their full batch, so that what
// does not fit is refused now. Then, or when the knobs are refused elsewhere, Revert
// goes back to the ones before. Parameters stay as they are.
func (p *Plans) Apply(k Knobs) error {
	p.before = p.inForce
	if err := p.checkHost(k); err != nil {
		return err
	}
	if err := p.recapture(k.Capture); err != nil {
		return err
	}
	key, next := p.batches(k)[0], p.basisOf(k)
	if next == p.basis && p.find(key) != nil {
		return nil
	}
	p.useTuned(next.tuned)
	d, err := p.demand(k)
	if err != nil {
		return err
	}
	// Until the memory is sure the old plans stay, and what is in flight runs on.
	err = p.reserve(k, d)
	if errors.Is(err, device.ErrOutOfMemory) && p.fitsAfresh(d) {
		err = p.move(d)
	}
	if err != nil {
		return err
	}
	if err := p.cfg.Quiesce(); err != nil {
		return err
	}
	p.setBasis(next)
	if err := p.place(d); err != nil {
		return err
	}
	if p.find(key) == nil {
		_, err = p.build(key)
	}
	if err == nil {
		p.sayUntuned(d)
	}
	return err
}

// Revert goes back to what was in force before the latest Apply. Plans are built
// again when batches ask for them.
func (p *Plans) Revert() error {
	p.useTuned(p.before.tuned)
	p.setBasis(p.before.basis)
	return p.recapture(p.before.capture)
}

// Broken reports whether an Apply that failed left the device of no further use.
func (p *Plans) Broken() bool { return p.broken }

// setBasis drops the plans of another basis.
func (p *Plans) setBasis(b basis) {
	if b != p.basis {
		p.drop(len(p.plans))
		p.basis = b
	}
}

// recapture turns capture on or off, of the plans there are too.
func (p *Plans) recapture(on bool) error {
	if on == p.capture {
		return nil
	}
	if err := p.cfg.Quiesce(); err != nil {
		return err
	}
	p.capture = on
	for _, q := range p.plans {
		for i := range q.slots {
			if err := p.setCapture(&q.slots[i].whole, on); err != nil {
				return err
			}
			if q.slots[i].partial.ID == 0 {
				continue
			}
			if err := p.setCapture(&q.slots[i].partial, on); err != nil {
				return err
			}
		}
	}
	return nil
}
