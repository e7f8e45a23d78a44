package train

import (
	"fmt"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/loader"
)

// Point is a run between two steps. It has everything that is needed to go on from
// there.
type Point struct {
	Step   int             // steps so far, with those of the run that this one continues
	Micro  int             // batches of these whose gradients wait for the optimizer
	Pace   Pace            // where the schedule of the learning rate is
	Loader loader.Position // after the samples of those steps
	State  *nn.Saved       // nil without a network
}

// Keeping says when a run is kept, so that it can go on after its end.
type Keeping struct {
	Every int // steps; 0: only when Engine.Point is called
	// Keep is called on the step loop's goroutine, which waits for it. It owns what
	// capture returns. Its error is noted, and the run goes on.
	Keep func(capture func() (*Point, error)) error
}

// Point waits for the steps in flight and copies the run's state to the host. It belongs to
// the step loop's goroutine, or to anyone once Run has returned.
func (e *Engine) Point() (*Point, error) {
	at := &e.progress
	p := &Point{Step: int(at.step), Micro: at.micro, Pace: at.pace}
	err := e.pipeline.finish()
	if err != nil {
		return nil, err
	}
	p.Loader = e.loader.Position()
	if state := e.steps.State(); state != nil {
		if p.State, err = state.Save(at.micro > 0); err != nil {
			return nil, errs.Wrap(err, "save", fmt.Sprintf("the state after step %d", p.Step), hintDevice)
		}
	}
	return p, nil
}

// Diverged reports whether a loss was not finite.
func (e *Engine) Diverged() bool { return e.results.diverged }

// keeper keeps the run whenever that is due. It belongs to the step loop.
type keeper struct {
	Keeping
	timeline *timeline
	kept     int32 // the step before which the run was kept last
}

// due reports whether the run is to be kept before a step.
func (k *keeper) due(step int32) bool {
	return k.Every != 0 && int(step)%k.Every == 0 && step != k.kept
}

// keep keeps the run before a step. Meanwhile the host waits for the device.
func (k *keeper) keep(step int32, capture func() (*Point, error)) {
	k.kept = step
	rec := k.timeline.rec
	start := rec.Now()
	if err := k.Keep(capture); err != nil {
		rec.Note("error", err.Error())
	}
	k.timeline.span(trace.Span{Start: start, Step: step, Batch: -1, Kind: trace.KindSync})
}

// begin puts the run where its configuration says: at the beginning, with given weights if
// there are some, or where an earlier run left off.
func (e *Engine) begin() error {
	state, from := e.steps.State(), e.cfg.From
	if from != nil {
		e.progress.restore(from, e.applied.Accumulate)
	}
	e.keeper.kept = e.progress.step
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
		e.progress.micro = 0
		e.timeline.rec.Note("warn", fmt.Sprintf("the gradients of %d batches that were yet to make a step are dropped: gradient_accumulation was %d and is %d", from.Micro, from.State.Accumulate, e.applied.Accumulate))
	}
	return nil
}
