package train

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/engine/train/plan"
	"dev.gpustall/loader"
)

// Test is what a model is evaluated on.
type Test struct {
	Dataset   loader.Dataset // nil: there is none
	Transform loader.Transform
	Epochs    bool // evaluate after each epoch; else when it is asked for
}

// ErrNoTest says that there is nothing to evaluate on.
var ErrNoTest = errors.New("the data has no test split")

// Evaluate asks for an evaluation at the next step boundary. It may be called from any
// goroutine.
func (e *Engine) Evaluate() error {
	if !e.evaluates() {
		return errs.New("evaluate", e.info.Name, e.whyNoTest(), "name data with a test split, and a device that computes")
	}
	e.asked.Store(true)
	return nil
}

func (e *Engine) whyNoTest() string {
	switch {
	case !e.info.Computes:
		return "this device computes nothing"
	case e.cfg.Model == nil:
		return "there is no model to evaluate"
	}
	return ErrNoTest.Error()
}

func (e *Engine) evaluates() bool { return e.cfg.evaluates() }

func (c *Config) evaluates() bool {
	return c.Test.Dataset != nil && c.Model != nil && c.Device.Info().Computes
}

// evaluateDue evaluates when it was asked for or an epoch has ended. The time that it takes
// is a pause: it is in no share and in no epoch.
func (e *Engine) evaluateDue(ctx context.Context) error {
	ended := e.epochEnded && e.cfg.Test.Epochs
	e.epochEnded = false
	if !e.evaluates() || !e.asked.Swap(false) && !ended {
		return nil
	}
	if err := e.finish(); err != nil {
		return err
	}
	start := e.rec.Now()
	e.rec.Gauge(trace.GaugeTestBegun, float64(e.epoch))
	loss, hits, n, err := e.evaluate(ctx)
	end := e.rec.Now()
	e.span(trace.KindPause, start, -1, 0)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return errs.Wrap(err, "evaluate", "the test split of "+e.cfg.Test.Dataset.Info().Name, "leave it out with --evaluate=off")
	}
	found := trace.Evaluation{
		At: end, Epoch: e.epoch, Step: e.step, Samples: n,
		Loss: loss / float64(n), Top1: float64(hits) / float64(n), Took: end - start,
	}
	e.rec.Evaluation(found)
	e.rec.Note("info", fmt.Sprintf("after step %s, in epoch %d: loss %s and top-1 %s on %s test samples, evaluated in %s",
		units.Count(int64(e.step)), e.epoch+1, units.Loss(found.Loss), units.Prose.Percent(found.Top1), units.Count(n), units.Prose.Time(found.Took)))
	return nil
}

// evaluate sums the loss and counts the hits over the test split. It has a loader of its own
// that records nothing: its work is none of the training's.
func (e *Engine) evaluate(ctx context.Context) (loss float64, hits, samples int64, err error) {
	l, err := loader.New(loader.Options{
		Dataset: e.cfg.Test.Dataset, Transform: e.cfg.Test.Transform, Seed: e.cfg.Seed,
		Alloc: e.dev, PinNote: e.info.PinNote, Epochs: 1,
		Knobs: plan.TestKnobs(e.applied.Loader, e.cfg.Test.Dataset.Info().Samples), Hold: plan.TestHold,
	})
	if err != nil {
		return 0, 0, 0, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	// One batch is loaded while the device has the one before.
	var ahead [plan.Slots]*loader.Batch
	collect := func(i int) error {
		f, b := &e.ring[i%plan.Slots], ahead[i%plan.Slots]
		if b == nil {
			return nil
		}
		ahead[i%plan.Slots] = nil
		defer b.Release()
		if err := e.dev.Sync(f.done); err != nil {
			return err
		}
		word := func(at int) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(f.metrics[at:]))) }
		loss += word(0) * float64(b.N)
		hits += int64(word(4))
		samples += int64(b.N)
		return nil
	}
	for i := 0; ; i++ {
		b, err := l.Next(ctx)
		if err != nil {
			err = errors.Join(unlessEnd(err), collect(i), collect(i+1))
			return loss, hits, samples, err
		}
		if err := collect(i); err != nil {
			b.Release()
			return 0, 0, 0, errors.Join(err, collect(i+1))
		}
		ahead[i%plan.Slots] = b
		if err := e.enqueueTest(i, b); err != nil {
			ahead[i%plan.Slots] = nil
			e.abort()
			b.Release()
			return 0, 0, 0, errors.Join(err, collect(i+1))
		}
	}
}

func unlessEnd(err error) error {
	if err == loader.ErrEnd { //nolint:errorlint // as in done
		return nil
	}
	return err
}

// enqueueTest sends a batch and its evaluation to the device.
func (e *Engine) enqueueTest(i int, b *loader.Batch) error {
	p, err := e.planOfTest(b)
	if err != nil {
		return err
	}
	f, slot := &e.ring[i%plan.Slots], p.Slot(int32(i))
	if err := e.dev.CopyIn(e.computeStream, slot.Input, b.Host); err != nil {
		return err
	}
	if err := e.dev.Launch(e.computeStream, slot.Program(true).ID); err != nil {
		return err
	}
	if err := slot.ReadMetrics(e.dev, e.computeStream, f.metrics[:nn.MetricsSize]); err != nil {
		return err
	}
	return e.dev.Record(e.computeStream, f.done)
}

// planOfTest finds the plan of a batch, or builds it when the device has nothing to do.
func (e *Engine) planOfTest(b *loader.Batch) (*plan.Plan, error) {
	key := plan.Key{Samples: b.N, DeviceTransforms: b.Device, Test: true}
	if p := e.plans.Find(key); p != nil {
		return p, nil
	}
	for _, f := range e.ring[:plan.Slots] {
		if err := e.dev.Sync(f.done); err != nil {
			return nil, err
		}
	}
	return e.plans.Build(key)
}
