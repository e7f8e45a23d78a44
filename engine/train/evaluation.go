package train

import (
	"context"
	"errors"
	"fmt"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/engine/train/prepared"
	"dev.gpustall/loader"
)

// Test is what a model is evaluated on.
type Test struct {
	Dataset   loader.Dataset // nil: there is none
	Transform loader.Transform
	Epochs    bool // evaluate after each epoch; otherwise only when it is asked for
}

// ErrNoTest says that there is nothing to evaluate on.
var ErrNoTest = errors.New("the data has no test split")

// Evaluate asks for an evaluation at the next step boundary. It may be called from any
// goroutine.
func (e *Engine) Evaluate() error {
	if !e.cfg.evaluates() {
		return errs.New("evaluate", e.info.Name, e.cfg.whyNoTest(), "name data with a test split, and a device that computes")
	}
	e.control.evaluation.Store(true)
	return nil
}

func (c *Config) whyNoTest() string {
	switch {
	case !c.Device.Info().Computes:
		return "this device computes nothing"
	case c.Model == nil:
		return "there is no model to evaluate"
	}
	return ErrNoTest.Error()
}

// evaluateDue evaluates when it was asked for or an epoch has ended. The time that it
// takes is a pause, which counts in no share and in no epoch.
func (e *Engine) evaluateDue(ctx context.Context) error {
	ended := e.progress.epochEnded && e.cfg.Test.Epochs
	e.progress.epochEnded = false
	if !e.cfg.evaluates() || !e.control.evaluation.Swap(false) && !ended {
		return nil
	}
	if err := e.pipeline.finish(); err != nil {
		return err
	}
	rec := e.timeline.rec
	start := rec.Now()
	rec.Gauge(trace.GaugeTestBegun, float64(e.progress.epoch))
	sum, err := e.evaluate(ctx)
	end := rec.Now()
	e.span(trace.KindPause, start, -1, 0)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return errs.Wrap(err, "evaluate", "the test split of "+e.cfg.Test.Dataset.Info().Name, "leave it out with --evaluate=off")
	}
	found := trace.Evaluation{
		At: end, Epoch: e.progress.epoch, Step: e.progress.step, Samples: sum.samples,
		Loss: sum.loss / float64(sum.samples), Top1: float64(sum.hits) / float64(sum.samples), Took: end - start,
	}
	rec.Evaluation(found)
	rec.Note("info", fmt.Sprintf("after step %s, in epoch %d: loss %s and top-1 %s on %s test samples, evaluated in %s",
		units.Count(int64(e.progress.step)), e.progress.epoch+1, units.Loss(found.Loss), units.Prose.Percent(found.Top1), units.Count(found.Samples), units.Prose.Time(found.Took)))
	return nil
}

// evaluate runs the test split. Its loader records nothing, since its work does not
// belong to the training.
func (e *Engine) evaluate(ctx context.Context) (sum evaluationSum, err error) {
	l, err := loader.New(loader.Options{
		Dataset: e.cfg.Test.Dataset, Transform: e.cfg.Test.Transform, Seed: e.cfg.Seed,
		Alloc: e.cfg.Device, PinNote: e.info.PinNote, Epochs: 1,
		Knobs: prepared.TestKnobs(e.applied.Loader, e.cfg.Test.Dataset.Info().Samples), Hold: prepared.TestHold,
	})
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	v := evaluation{dev: e.cfg.Device, stream: e.pipeline.computeStream, steps: e.steps, flights: e.pipeline.ring[:prepared.Slots]}
	if err := v.run(ctx, l); err != nil {
		e.pipeline.abort()
		v.drop()
		return sum, err
	}
	return v.sum, nil
}

// evaluationSum is what an evaluation adds up.
type evaluationSum struct {
	loss          float64 // of all samples
	hits, samples int64
}

// evaluation is one pass over the test split, while no step is in flight. One batch is
// loaded while the device has the previous one.
type evaluation struct {
	dev     device.Device
	stream  device.Stream
	steps   *prepared.Steps
	flights []flight                      // whose metrics and events it uses
	ahead   [prepared.Slots]*loader.Batch // on the device
	sum     evaluationSum
}

// run evaluates all batches of a loader.
func (v *evaluation) run(ctx context.Context, l *loader.Loader) error {
	for i := 0; ; i++ {
		b, err := l.Next(ctx)
		if err != nil {
			return errors.Join(unlessEnd(err), v.collect(i), v.collect(i+1))
		}
		if err := v.collect(i); err != nil {
			b.Release()
			return err
		}
		v.ahead[i%prepared.Slots] = b
		if err := v.enqueue(i, b); err != nil {
			return err
		}
	}
}

// enqueue sends a batch and its evaluation to the device.
func (v *evaluation) enqueue(i int, b *loader.Batch) error {
	s, err := v.stepOf(b)
	if err != nil {
		return err
	}
	f, slot := &v.flights[i%prepared.Slots], s.Slot(int32(i))
	if err := v.dev.CopyIn(v.stream, slot.Input, b.Host); err != nil {
		return err
	}
	if err := v.dev.Launch(v.stream, slot.Program(true).ID); err != nil {
		return err
	}
	if err := slot.ReadMetrics(v.dev, v.stream, f.metrics[:nn.MetricsSize]); err != nil {
		return err
	}
	return v.dev.Record(v.stream, f.done)
}

// collect waits for the batch of a slot, if there is one, and adds up its metrics.
func (v *evaluation) collect(i int) error {
	f, b := &v.flights[i%prepared.Slots], v.ahead[i%prepared.Slots]
	if b == nil {
		return nil
	}
	v.ahead[i%prepared.Slots] = nil
	defer b.Release()
	if err := v.dev.Sync(f.done); err != nil {
		return err
	}
	v.sum.loss += float64(float(f.metrics)) * float64(b.N)
	v.sum.hits += int64(float(f.metrics[4:]))
	v.sum.samples += int64(b.N)
	return nil
}

// drop gives the batches back when the device is done with them.
func (v *evaluation) drop() {
	for _, b := range v.ahead {
		if b != nil {
			b.Release()
		}
	}
}

// stepOf finds the prepared evaluation of a batch, or builds it when the device has
// nothing to do.
func (v *evaluation) stepOf(b *loader.Batch) (*prepared.Step, error) {
	key := prepared.Key{Samples: b.N, DeviceTransforms: b.Device, Test: true}
	if s := v.steps.Find(key); s != nil {
		return s, nil
	}
	for i := range v.flights {
		if err := v.dev.Sync(v.flights[i].done); err != nil {
			return nil, err
		}
	}
	return v.steps.Build(key)
}

// unlessEnd returns err unless it is the loader's end.
func unlessEnd(err error) error {
	if err == loader.ErrEnd { //nolint:errorlint // as in done
		return nil
	}
	return err
}
