package train

import (
	"errors"
	"fmt"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/engine/train/prepared"
	"dev.gpustall/loader"
)

// Config is what a run is made of.
type Config struct {
	prepared.Task
	Device    device.Device
	Recorder  *trace.Recorder
	Dataset   loader.Dataset
	Transform loader.Transform
	Epochs    int       // 0: endless; with From those before it count
	Steps     int       // 0: no limit; with From those before it count
	Recipe    nn.Recipe // what optimizer=auto means
	Knobs     Knobs
	Test      Test

	Weights []nn.Tensor // these replace the random initial ones; the others stay random
	From    *Point      // where an earlier run left off; nil begins anew
	Keeping Keeping

	// Predict returns what is expected of all knobs together; nil predicts nothing. Set
	// calls it. The answer is kept with the segment that the change begins.
	Predict func(to []knob.Setting) trace.Prediction
}

// samples describes what the loader delivers.
func (c *Config) samples() loader.Info { return loader.InfoOf(c.Dataset, c.Transform) }

// check refuses knobs that the loader, the device or the length of the run cannot do.
func (c *Config) check(k *Knobs, info device.Info) error {
	return errors.Join(k.Check(info), k.Loader.Fits(c.samples()), c.checkSchedule(k))
}

// checkSamples refuses samples that the model cannot take.
func (c *Config) checkSamples() error {
	m, s := c.Model, c.samples()
	if m == nil || m.In == (nn.Shape{T: s.T, H: s.H, W: s.W, C: s.C}) {
		return nil
	}
	of := loader.Info{T: m.In.T, H: m.In.H, W: m.In.W, C: m.In.C}
	return errs.New("train", "the model "+m.Name, fmt.Sprintf("it is built for samples of %s, and the data's are %s", of.Shape(), s.Shape()), "choose a transform or a model that fits")
}

// checkSchedule refuses a schedule that follows the length of the run if the run has no
// end.
func (c *Config) checkSchedule(k *Knobs) error {
	if !k.Schedule.NeedsEnd() || c.updates(k) > 0 {
		return nil
	}
	return errs.New("set", fmt.Sprintf("schedule=%s", k.Schedule), "the run has no end that it could be fitted to",
		"end it with --epochs or --steps, or give the schedule steps=N")
}

// updates returns how many updates of the optimizer the whole run has with knobs, or 0
// where nothing ends it.
func (c *Config) updates(k *Knobs) int {
	steps := c.Steps
	if c.Epochs > 0 {
		n, batch := c.Dataset.Info().Samples, k.Loader.BatchSize
		each := n / batch
		if n%batch != 0 && !k.Loader.DropLast {
			each++
		}
		if all := c.Epochs * each; steps == 0 || all < steps {
			steps = all
		}
	}
	return steps / k.Accumulate
}

// evaluates reports whether the run can evaluate.
func (c *Config) evaluates() bool {
	return c.Test.Dataset != nil && c.Model != nil && c.Device.Info().Computes
}

// prepared returns what steps are prepared from.
func (c *Config) prepared() prepared.Config {
	p := prepared.Config{
		Task: c.Task, Device: c.Device, Recorder: c.Recorder,
		Split: splitOf(c.Dataset, c.Transform), Hold: Hold, Saves: c.Keeping.Every > 0,
	}
	if c.evaluates() {
		p.Test = splitOf(c.Test.Dataset, c.Test.Transform)
	}
	return p
}

func splitOf(d loader.Dataset, t loader.Transform) prepared.Split {
	s := prepared.Split{Dataset: loader.InfoOf(d, t)}
	s.Mean, s.Std = t.Normalisation()
	if of, ok := t.(loader.Stager); ok {
		s.Steps = of.DeviceSteps()
	}
	return s
}

// LargestBatch returns the largest batch_size that fits into memory with the other knobs.
// It is at most the size of the data set.
func (c *Config) LargestBatch() (int, error) {
	return prepared.Largest(c.prepared(), c.Knobs.Knobs, min(c.Dataset.Info().Samples, KnobTable.Find("batch_size").Max))
}

// position returns where the loader begins; nil is the beginning.
func (c *Config) position() *loader.Position {
	if c.From == nil {
		return nil
	}
	return &c.From.Loader
}
