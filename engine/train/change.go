package train

import (
	"context"
	"errors"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// Set asks for knob changes. They are checked together and all or none are
// taken; the engine applies them at its next step boundary and the trace
// confirms them as a new segment. It may be called from any goroutine.
func (e *Engine) Set(changes []knob.Setting) error {
	e.setMu.Lock()
	defer e.setMu.Unlock()
	k := *e.wanted.Load()
	for _, c := range changes {
		if err := k.Set(c.Name, c.Value); err != nil {
			return err
		}
	}
	if err := errors.Join(k.Check(e.info), k.Loader.Fits(e.samples()), e.checkSchedule(&k)); err != nil {
		return err
	}
	if e.cfg.Predict != nil && k != *e.wanted.Load() {
		e.expected = expectation{k, e.cfg.Predict(k.List())}
	}
	e.wanted.Store(&k)
	e.nudge()
	return nil
}

// expectation is what was predicted of knobs when they were asked for.
type expectation struct {
	of   Knobs
	says trace.Prediction
}

// expect is what was predicted of the knobs that take effect.
func (e *Engine) expect(k Knobs) (p trace.Prediction) {
	e.setMu.Lock()
	defer e.setMu.Unlock()
	if e.expected.of == k {
		p, e.expected = e.expected.says, expectation{}
	}
	return p
}

// Requested returns the knobs last asked for.
func (e *Engine) Requested() []knob.Setting { return e.wanted.Load().List() }

func (e *Engine) nudge() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// boundary is the place between two steps where pauses and changes happen.
func (e *Engine) boundary(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.evaluateDue(ctx); err != nil {
		return err
	}
	if e.paused.Load() {
		if err := e.pause(ctx); err != nil {
			return err
		}
	}
	if e.transition.active && e.transition.refilled(e.loader.Stats().Ready) {
		e.endTransition()
	}
	e.publish(e.rec.Now())
	e.keep()
	if want := e.wanted.Load(); *want != e.applied {
		return e.apply(*want)
	}
	return nil
}

// apply puts the wanted knobs in force and opens a new segment. Knobs that turn out
// to be impossible (too little memory) are withdrawn: the old ones stay in force and
// the run goes on.
func (e *Engine) apply(k Knobs) error {
	before := e.loader.Stats()
	words := knob.Diff(e.applied.List(), k.List())
	start := e.rec.Now()
	err := e.plans.Apply(k.Knobs)
	if err == nil {
		err = e.loader.Set(k.Loader)
	}
	if err != nil {
		e.withdraw(k)
		e.rec.Note("error", words+trace.NotApplied+err.Error())
	}
	e.span(trace.KindRebuild, start, -1, 0)
	switch {
	case err != nil && e.plans.Broken():
		return errs.Wrap(err, "apply", words, hintDevice)
	case err != nil:
		if err := e.plans.Revert(); err != nil {
			return errs.Wrap(err, "go back from", words, hintDevice)
		}
		return nil
	}
	state := e.plans.State()
	if state != nil {
		state.Settle()
	}
	if k.Accumulate != e.applied.Accumulate || k.Precision != e.applied.Precision {
		e.micro = 0
		if state != nil {
			if err := state.DropSum(); err != nil {
				return errs.Wrap(err, "clear the sum of gradients for", words, hintDevice)
			}
		}
	}
	from := e.applied.Knobs
	if k.Schedule != e.applied.Schedule {
		e.pace.From, e.pace.Epoch = e.pace.Updates, max(0, e.epoch)
	}
	e.applied = k
	e.closeSegment()
	e.openSegment(words, e.expect(k))
	e.noteRisks(from)
	e.transition.begin(start, before.Ready, before.InFlight, k.Loader.InFlight())
	return nil
}

// withdraw takes refused changes back: wanted knobs that still have a value of refused
// return to the value in force. Knobs set in the meantime stay wanted, unless they are
// impossible without the refused ones.
func (e *Engine) withdraw(refused Knobs) {
	e.setMu.Lock()
	defer e.setMu.Unlock()
	k := *e.wanted.Load()
	if k == refused {
		k = e.applied
	}
	was, not, now := e.applied.List(), refused.List(), k.List()
	for i := range now {
		if not[i] != was[i] && now[i] == not[i] && k.Set(was[i].Name, was[i].Value) != nil {
			k = e.applied
			break
		}
	}
	if k == refused || k.Check(e.info) != nil {
		k = e.applied
	}
	e.wanted.Store(&k)
}
