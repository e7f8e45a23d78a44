package train

import (
	"fmt"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/loader"
)

// Point is a run between two steps: all that it takes to go on from there.
type Point struct {
	Step   int             // steps so far, those before the run went on included
	Micro  int             // of them, batches whose gradients wait for the optimizer
	Pace   Pace            // where the schedule of the learning rate is
	Loader loader.Position // behind what the steps were made of
	State  *nn.Saved       // nil without a network
}

// Keeping is how a run is kept, so that it can go on after its end.
type Keeping struct {
	Every int // steps; 0: only when Engine.Point is called
	// Keep is called on the step loop's goroutine, which waits for it. What capture returns
	// is Keep's. An error of it is noted, and the run goes on.
	Keep func(capture func() (*Point, error)) error
}

// Point waits for the steps in flight and copies the run's state to the host. It belongs to
// the step loop's goroutine, or to anyone once Run has returned.
func (e *Engine) Point() (*Point, error) {
	p := &Point{Step: int(e.step), Micro: e.micro, Pace: e.pace.Pace}
	err := e.finish()
	if err != nil {
		return nil, err
	}
	p.Loader = e.loader.Position()
	if state := e.plans.State(); state != nil {
		if p.State, err = state.Save(e.micro > 0); err != nil {
			return nil, errs.Wrap(err, "save", fmt.Sprintf("the state after step %d", p.Step), hintDevice)
		}
	}
	return p, nil
}

// Diverged reports whether a loss was no number.
func (e *Engine) Diverged() bool { return e.diverged }

// keep has the run kept, where its turn has come. What that takes is time in which the host
// waits for the device.
func (e *Engine) keep() {
	k := &e.cfg.Keeping
	if k.Every == 0 || int(e.step)%k.Every != 0 || e.step == e.kept || e.diverged {
		return
	}
	e.kept = e.step
	start := e.rec.Now()
	if err := k.Keep(e.Point); err != nil {
		e.rec.Note("error", err.Error())
	}
	e.span(trace.KindSync, start, -1, 0)
}

// begin puts the run where its configuration says: at the beginning, with other weights if
// there are some, or where an earlier run left off.
func (e *Engine) begin() error {
	state, from := e.plans.State(), e.cfg.From
	if from != nil {
		e.step, e.micro = int32(from.Step), from.Micro
		if e.pace.Pace = from.Pace; from.Pace.Updates == 0 { // a checkpoint that does not say
			e.pace.Updates = (from.Step - from.Micro) / e.applied.Accumulate
		}
	}
	e.kept = e.step
	switch {
	case state == nil:
		return nil
	case from == nil || from.State == nil:
		if len(e.cfg.Weights) == 0 {
			return nil
		}
		return state.Load(e.cfg.Weights)
	}
	if err := state.Restore(from.State); err != nil {
		return err
	}
	if from.Micro > 0 && from.State.Accumulate != e.applied.Accumulate {
		e.micro = 0
		e.rec.Note("warn", fmt.Sprintf("the gradients of %d batches that were yet to make a step are dropped: gradient_accumulation was %d and is %d", from.Micro, from.State.Accumulate, e.applied.Accumulate))
	}
	return nil
}
