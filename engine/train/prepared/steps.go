// Package prepared keeps on the device what the steps of a run need: the model's state, the input
// slots and the activations. For each size of batch it keeps a prepared step: a plan's launches in
// the device's form. All of this memory is added up before any is taken, at the start and when
// knobs change.
package prepared

import (
	"errors"
	"fmt"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train/nn"
)

// Steps prepares steps and keeps a few, with the memory that they share. It belongs to
// the step loop's goroutine, except for Risks and HostNeed.
type Steps struct {
	cfg     *Config
	est     estimator
	host    hostBudget
	tuning  tuning
	cache   cache
	buffers buffers
	budget  budget
	gauges  gauges

	inForce
	before inForce // what was in force before the latest Apply
}

// inForce is what all prepared steps have in common.
type inForce struct {
	basis   basis
	capture bool
}

// Open adds up the memory of a run, takes it, and allocates what lasts as long as the
// run. Warm prepares the steps.
func Open(cfg Config, k Knobs) (*Steps, error) {
	s := newSteps(cfg, k)
	if err := s.open(k); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func newSteps(cfg Config, k Knobs) *Steps {
	dev, info := cfg.Device, cfg.Device.Info()
	s := &Steps{cfg: &cfg, cache: cache{dev: dev}, gauges: gauges{dev: dev, rec: cfg.Recorder}}
	s.est = newEstimator(s.cfg, info)
	s.host.est = &s.est
	s.tuning = tuning{name: info.Name, task: &s.cfg.Task, rec: cfg.Recorder}
	s.tuning.tuner, _ = dev.(device.Tuner)
	s.buffers = buffers{dev: dev, model: cfg.Model, cache: &s.cache}
	s.budget = budget{est: &s.est, buffers: &s.buffers, rec: cfg.Recorder, quiesce: cfg.Quiesce}
	s.budget.reserver, _ = dev.(device.Reserver)
	s.inForce = inForce{s.est.basis(k), k.Capture}
	return s
}

func (s *Steps) open(k Knobs) error {
	s.host.open()
	if err := s.host.check(k); err != nil {
		return err
	}
	s.tuning.use(s.basis.tuned)
	n, err := s.est.need(k)
	if err != nil {
		return err
	}
	if !s.budget.fits(&n, s.basis) {
		return s.budget.refusal(k, &n, s.basis, nil)
	}
	// Trials take memory of their own, so they come before the run takes its memory.
	if s.tuning.untried(&n) > 0 {
		if err := s.tuning.try(&n); err != nil {
			return err
		}
	}
	if err := s.budget.reserve(k, &n, s.basis); err != nil {
		return err
	}
	if m := s.cfg.Model; m != nil {
		if s.buffers.state, err = nn.NewState(s.cfg.Device, m, s.cfg.Seed); err != nil {
			return errs.Wrap(err, "place", "the model's parameters on "+s.est.info.Name, hintMemory)
		}
	}
	return s.buffers.fill(&n)
}

// Warm prepares the steps that the first epoch needs, before the run's clock starts.
func (s *Steps) Warm(k Knobs) error {
	for _, key := range s.est.trainKeys(k) {
		if s.cache.find(key) != nil {
			continue
		}
		if _, err := s.build(key); err != nil {
			return err
		}
	}
	return nil
}

// Find returns the prepared step of a batch, or nil when it has to be built.
func (s *Steps) Find(key Key) *Step {
	s.cache.turn++
	return s.cache.find(key)
}

// Build prepares the step of a batch. It waits for what is in flight, because existing
// steps may have to make room.
func (s *Steps) Build(key Key) (*Step, error) {
	if err := s.cfg.Quiesce(); err != nil {
		return nil, err
	}
	return s.build(key)
}

// build does what Build does while nothing is in flight. If memory is short, all
// prepared steps make room.
func (s *Steps) build(key Key) (*Step, error) {
	step, err := s.tryBuild(key)
	if errors.Is(err, device.ErrOutOfMemory) {
		s.buffers.free()
		step, err = s.tryBuild(key)
	}
	if err != nil {
		return nil, errs.Wrap(err, "plan", fmt.Sprintf("a step of batch_size=%d on %s", key.Samples, s.est.info.Name), hintMemory)
	}
	return step, nil
}

func (s *Steps) tryBuild(key Key) (*Step, error) {
	activations, err := s.est.activations(s.basis, key)
	if err != nil {
		return nil, err
	}
	at := s.est.layout(key)
	if err := s.buffers.allocate(at.Size, activations, s.basis.Layout); err != nil {
		return nil, err
	}
	s.cache.makeRoom()
	c := s.est.planConfig(s.basis, key)
	c.SamplesOff, c.LabelsOff, c.AugOff, c.Activations = at.Samples, at.Labels, at.Aug, s.buffers.activations
	step := &Step{key: key}
	for i := range step.slots {
		c.Input = s.buffers.inputs[i].Slice(0, at.Size)
		if err := s.prepare(&step.slots[i], c); err != nil {
			step.release(s.cfg.Device)
			return nil, err
		}
	}
	s.cache.add(step)
	return step, nil
}

// prepare makes the programs of a slot.
func (s *Steps) prepare(slot *Slot, c nn.PlanConfig) (err error) {
	slot.Input = c.Input
	dev, m := s.cfg.Device, s.cfg.Model
	if m == nil {
		return load(dev, s.capture, &slot.whole, []device.Launch{{Op: s.cfg.Fixed(c.Batch), Layer: "step"}})
	}
	if slot.plan, err = m.Plan(dev, s.buffers.state, c); err != nil {
		return err
	}
	if c.Test {
		return load(dev, s.capture, &slot.whole, slot.plan.Eval)
	}
	if err = load(dev, s.capture, &slot.whole, slot.plan.Train); err != nil || s.basis.Accumulate == 1 {
		return err
	}
	return load(dev, s.capture, &slot.partial, slot.plan.Accumulate)
}

// State returns the model's state, or nil without a network.
func (s *Steps) State() *nn.State { return s.buffers.state }

// Memory returns the most device memory that was planned for.
func (s *Steps) Memory() trace.Memory { return s.budget.largest }

// HostMemory returns the most of the host's memory that was planned for.
func (s *Steps) HostMemory() trace.HostMemory { return s.host.largest }

// Tuned lists the decisions between kernel variants, where the device makes any.
func (s *Steps) Tuned() []device.Tuned { return s.tuning.decisions() }

// Publish hands the session the gauges of device memory that changed.
func (s *Steps) Publish() { s.gauges.publish(s.budget.largest.Total()) }

// Close frees all memory. Nothing may be in flight.
func (s *Steps) Close() { s.buffers.close() }
