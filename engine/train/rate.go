package train

import (
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train/nn"
)

// ratePeriod is how often, in ns, a learning rate that changes with each step is told.
const ratePeriod = 200e6

// rate gives the optimizer its settings for each step, and tells the session the
// learning rate. It belongs to the step loop.
type rate struct {
	rec    *trace.Recorder
	shown  float64
	showAt int64 // when the next one may be shown, in ns
}

// set enqueues the optimizer's settings for the next step, if they changed.
func (r *rate) set(state *nn.State, stream device.Stream, h nn.Hyper) error {
	if state == nil || h == state.Hyper() {
		return nil
	}
	if err := state.SetHyper(stream, h); err != nil {
		return err
	}
	if now := r.rec.Now(); now >= r.showAt {
		r.showAt = now + ratePeriod
		r.show(state)
	}
	return nil
}

// show hands the session the learning rate, if it changed.
func (r *rate) show(state *nn.State) {
	if state != nil && state.Hyper().LR != r.shown {
		r.shown = state.Hyper().LR
		r.rec.Gauge(trace.GaugeLearningRate, r.shown)
	}
}

// hyper returns the optimizer's settings under knobs for the next step, which is on a
// batch of epoch.
func (c *Config) hyper(k *Knobs, at *progress, epoch int32) nn.Hyper {
	pace := &at.pace
	h := k.Optimizer.Hyper
	switch {
	case k.Optimizer.Chosen:
	case k.Schedule.Kind == nn.AutoSchedule:
		return c.Recipe.At(int(at.step))
	default:
		h = c.Recipe.Hyper
	}
	return k.Schedule.At(nn.Progress{
		Update: pace.Updates - pace.From, Total: c.updates(k) - pace.From,
		Epoch: int(epoch - pace.Epoch), Cycles: k.Optimizer.Cycles(),
	}, h)
}
