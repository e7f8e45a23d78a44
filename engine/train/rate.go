package train

import (
	"fmt"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train/nn"
)

// Pace is where the schedule of the learning rate is.
type Pace struct {
	Updates int   `json:"updates"`         // of the optimizer, those before the run went on included
	From    int   `json:"from,omitempty"`  // the update at which the schedule began
	Epoch   int32 `json:"epoch,omitempty"` // and the epoch
}

// pace is the engine's, and what it told of it.
type pace struct {
	Pace
	shown  float64
	showAt int64 // when to show another one, in ns
}

// ratePeriod is how often a learning rate that changes with each step is told, in ns.
const ratePeriod = 200e6

// hyper are the optimizer's settings for the step that is next, of an epoch.
func (e *Engine) hyper(epoch int32) nn.Hyper {
	k := &e.applied
	h := k.Optimizer.Hyper
	switch {
	case k.Optimizer.Chosen:
	case k.Schedule.Kind == nn.AutoSchedule:
		return e.cfg.Recipe.At(int(e.step))
	default:
		h = e.cfg.Recipe.Hyper
	}
	return k.Schedule.At(nn.Progress{
		Update: e.pace.Updates - e.pace.From, Total: e.updatesUnder(k) - e.pace.From,
		Epoch: int(epoch - e.pace.Epoch), Cycles: k.Optimizer.Cycles(),
	}, h)
}

// updatesUnder is how many updates the run is to have under knobs; 0 where nothing ends it.
func (e *Engine) updatesUnder(k *Knobs) int {
	steps := e.cfg.Steps
	if e.cfg.Epochs > 0 {
		n, batch := e.cfg.Dataset.Info().Samples, k.Loader.BatchSize
		each := n / batch
		if n%batch != 0 && !k.Loader.DropLast {
			each++
		}
		if all := e.cfg.Epochs * each; steps == 0 || all < steps {
			steps = all
		}
	}
	return steps / k.Accumulate
}

// setHyper gives the optimizer the step's settings, if they changed.
func (e *Engine) setHyper(epoch int32) error {
	state := e.plans.State()
	if state == nil {
		return nil
	}
	h := e.hyper(epoch)
	if h == state.Hyper() {
		return nil
	}
	if err := state.SetHyper(e.computeStream, h); err != nil {
		return err
	}
	if now := e.rec.Now(); now >= e.pace.showAt {
		e.pace.showAt = now + ratePeriod
		e.showRate()
	}
	return nil
}

// showRate hands the session the learning rate, when it changed.
func (e *Engine) showRate() {
	if state := e.plans.State(); state != nil && state.Hyper().LR != e.pace.shown {
		e.pace.shown = state.Hyper().LR
		e.rec.Gauge(trace.GaugeLearningRate, e.pace.shown)
	}
}

// checkSchedule refuses a schedule that is fitted to the length of a run without end.
func (e *Engine) checkSchedule(k *Knobs) error {
	if !k.Schedule.NeedsEnd() || e.updatesUnder(k) > 0 {
		return nil
	}
	return errs.New("set", fmt.Sprintf("schedule=%s", k.Schedule), "the run has no end that it could be fitted to",
		"end it with --epochs or --steps, or give the schedule steps=N")
}
