// Package train trains: it takes batches from the loader, copies them to the
// device and enqueues the step's launches, and writes down when each of these
// happened. Knobs change at step boundaries; nothing here waits for a screen.
package train

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/engine/train/ops"
	"dev.gpustall/engine/train/plan"
	"dev.gpustall/loader"
)

// Depth is how many steps may be enqueued and unresolved. The host runs that far
// ahead of the device, so that a late batch is the only thing that can starve it.
const Depth = 3

// Hold is how many batches the engine keeps unreleased at the most: those in
// flight and the one just taken.
const Hold = Depth + 1

// Config is what a run is made of.
type Config struct {
	plan.Task
	Device    device.Device
	Recorder  *trace.Recorder
	Dataset   loader.Dataset
	Transform loader.Transform
	Epochs    int       // 0: endless; with From those before it count
	Steps     int       // 0: no limit; with From those before it count
	Recipe    nn.Recipe // what optimizer=auto means
	Knobs     Knobs
	Test      Test

	Weights []nn.Tensor // that take the place of the random first ones; the others stay
	From    *Point      // where an earlier run left off; nil begins anew
	Keeping Keeping

	// Predict says what all knobs together, as they are asked for, are expected to do; nil
	// says nothing. It is called by Set, and what it says is kept with the segment that the
	// change begins.
	Predict func(to []knob.Setting) trace.Prediction
}

// Engine runs the step loop. Set, Pause and Requested are for any goroutine; the
// rest belongs to the one that calls Run.
type Engine struct {
	cfg    Config
	info   device.Info
	dev    device.Device
	rec    *trace.Recorder
	loader *loader.Loader
	hung   error // a worker of it that Close left behind
	plans  *plan.Plans
	ops    *ops.Table
	scale  lossScale

	copyStream, computeStream device.Stream
	ring                      [Depth + 2]flight
	head, tail                int // flights [tail, head) are in flight; indices grow for ever
	clock                     anchor

	wanted      atomic.Pointer[Knobs]
	setMu       sync.Mutex // orders Set's read-modify-write
	expected    expectation
	applied     Knobs
	segment     trace.Segment
	transition  transition
	ineffective []string // of the segment: what was said of knobs without effect
	publishAt   int64    // when to publish next, in ns

	asked      atomic.Bool // for an evaluation
	epochEnded bool        // with the latest step
	paused     atomic.Bool
	suspended  suspension
	wake       chan struct{} // a resume, capacity 1

	micro    int // batches whose gradients wait for the optimizer
	step     int32
	kept     int32 // the step before which the run was kept last
	pace     pace
	epoch    int32 // of the batch before; -1 before the first
	diverged bool  // a loss was no number, and a note said so
	starved  starved
	tracks   struct{ step, copy, compute *trace.Track }
}

// New prepares streams, events, the loader and the first plan. The caller closes
// the engine; the device and the data set stay the caller's.
func New(cfg Config) (*Engine, error) {
	info := cfg.Device.Info()
	if err := cfg.Knobs.Check(info); err != nil {
		return nil, err
	}
	e := &Engine{
		cfg: cfg, info: info, dev: cfg.Device, rec: cfg.Recorder,
		ops:       ops.NewTable(cfg.Device, cfg.Recorder),
		suspended: suspension{from: -1},
		applied:   cfg.Knobs, wake: make(chan struct{}, 1), epoch: -1,
	}
	if err := errors.Join(e.checkSchedule(&cfg.Knobs), e.checkSamples()); err != nil {
		return nil, err
	}
	knobs := cfg.Knobs
	e.wanted.Store(&knobs)
	e.tracks.step = e.rec.Track(trace.TrackStep)
	e.tracks.copy = e.rec.Track(trace.TrackCopy)
	e.tracks.compute = e.rec.Track(trace.TrackCompute)
	e.starved.open()
	if err := e.prepare(); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// checkSamples refuses samples that the model cannot take.
func (e *Engine) checkSamples() error {
	m, s := e.cfg.Model, e.samples()
	if m == nil || m.In == (nn.Shape{T: s.T, H: s.H, W: s.W, C: s.C}) {
		return nil
	}
	of := loader.Info{T: m.In.T, H: m.In.H, W: m.In.W, C: m.In.C}
	return errs.New("train", "the model "+m.Name, fmt.Sprintf("it is built for samples of %s, and the data's are %s", of.Shape(), s.Shape()), "choose a transform or a model that fits")
}

// samples describes what the loader delivers.
func (e *Engine) samples() loader.Info { return loader.InfoOf(e.cfg.Dataset, e.cfg.Transform) }

// hintDevice is what there is to do about a device that fails.
const hintDevice = "run it again; gpustall doctor says what this machine has"

func (e *Engine) prepare() (err error) {
	if e.copyStream, err = e.dev.NewStream("copy"); err != nil {
		return errs.Wrap(err, "create", "the copy stream on "+e.info.Name, hintDevice)
	}
	if e.computeStream, err = e.dev.NewStream("compute"); err != nil {
		return errs.Wrap(err, "create", "the compute stream on "+e.info.Name, hintDevice)
	}
	for i := range e.ring {
		if err = e.ring[i].prepare(e.dev); err != nil {
			return errs.Wrap(err, "create", "events on "+e.info.Name, hintDevice)
		}
	}
	c := e.cfg.plans()
	c.Quiesce = e.finish
	e.plans, err = plan.Open(c, e.applied.Knobs)
	if err != nil {
		return err
	}
	e.loader, err = loader.New(loader.Options{
		Dataset: e.cfg.Dataset, Transform: e.cfg.Transform, Seed: e.cfg.Seed, Recorder: e.rec,
		Alloc: e.dev, PinNote: e.info.PinNote, Epochs: e.cfg.Epochs, Knobs: e.applied.Loader,
		Hold: Hold, Start: e.cfg.position(),
	})
	if err != nil {
		return err
	}
	if err := e.begin(); err != nil {
		return err
	}
	return e.plans.Warm(e.applied.Knobs)
}

// plans is what plans are made of.
func (c *Config) plans() plan.Config {
	p := plan.Config{
		Task: c.Task, Device: c.Device, Recorder: c.Recorder,
		Split: splitOf(c.Dataset, c.Transform), Hold: Hold, Saves: c.Keeping.Every > 0,
	}
	if c.evaluates() {
		p.Test = splitOf(c.Test.Dataset, c.Test.Transform)
	}
	return p
}

func splitOf(d loader.Dataset, t loader.Transform) plan.Split {
	s := plan.Split{Dataset: loader.InfoOf(d, t)}
	s.Mean, s.Std = t.Normalisation()
	if of, ok := t.(loader.Stager); ok {
		s.Steps = of.DeviceSteps()
	}
	return s
}

// LargestBatch is the largest batch_size that fits into memory with the other knobs, at
// most the data set.
func (c *Config) LargestBatch() (int, error) {
	return plan.Largest(c.plans(), c.Knobs.Knobs, min(c.Dataset.Info().Samples, KnobTable.Find("batch_size").Max))
}

// position is where the loader begins; nil for the beginning.
func (c *Config) position() *loader.Position {
	if c.From == nil {
		return nil
	}
	return &c.From.Loader
}

// Run trains until the epochs or steps are done, ctx is cancelled, or something
// fails. On every way out the steps in flight are waited for and recorded. A
// cancelled ctx is not an error.
func (e *Engine) Run(ctx context.Context) error {
	if err := e.clock.start(e.dev, e.computeStream, e.rec); err != nil {
		return fmt.Errorf("anchor the device's clock: %w", err)
	}
	e.openSegment("start", trace.Prediction{})
	e.noteRisks(plan.Knobs{})
	err := e.loop(ctx)
	if done(err) && ctx.Err() == nil {
		err = errors.Join(unlessEnd(err), e.evaluateDue(ctx))
	}
	if ferr := e.finish(); ferr != nil && done(err) {
		err = ferr
	}
	e.closeSegment()
	if done(err) {
		return nil
	}
	return err
}

// loop trains step after step; it returns what ended it.
func (e *Engine) loop(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("train: the step loop panicked: %v\n%s", p, debug.Stack())
			e.abort()
		}
	}()
	for e.cfg.Steps == 0 || int(e.step) < e.cfg.Steps {
		if err = e.trainStep(ctx); err != nil {
			return err
		}
	}
	return nil
}

// done reports whether err is an ordinary end: the loader's, or that of the run's
// context. Both come unwrapped; an error of the data set may wrap anything,
// io.EOF and context.Canceled too, and is a failure.
func done(err error) bool {
	return err == nil || err == loader.ErrEnd || err == context.Canceled //nolint:errorlint // what wraps them is another error
}

// Loader tells the loader's state, for gauges.
func (e *Engine) Loader() loader.Stats { return e.loader.Stats() }

// Memory, HostMemory and Tuned belong to the step loop's goroutine, or to anyone once
// Run has returned.

// Memory is the most device memory that the run has planned for.
func (e *Engine) Memory() trace.Memory { return e.plans.Memory() }

// HostMemory is the most of the host's memory that the run has planned for.
func (e *Engine) HostMemory() trace.HostMemory { return e.plans.HostMemory() }

// Tuned lists the decisions between kernel variants, where the device makes any.
func (e *Engine) Tuned() []device.Tuned { return e.plans.Tuned() }

// Hung tells, after Close, of a loader's worker that did not end and was left
// behind: the data set and the device must then stay open.
func (e *Engine) Hung() error { return e.hung }

// Close stops the loader and frees what the engine took from the device.
func (e *Engine) Close() error {
	var errs []error
	if e.loader != nil && e.hung == nil {
		if e.hung = e.loader.Close(); e.hung != nil {
			e.rec.Note("warn", e.hung.Error())
		}
	}
	if e.plans != nil {
		e.plans.Close()
	}
	for i := range e.ring {
		e.ring[i].close(e.dev)
	}
	e.clock.close(e.dev)
	return errors.Join(errs...)
}
