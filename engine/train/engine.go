// Package train trains: it takes batches from the loader, copies them to the
// device and enqueues the step's launches, and records when each of these
// happened. Knobs change at step boundaries; nothing here waits for a screen.
package train

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train/ops"
	"dev.gpustall/engine/train/prepared"
	"dev.gpustall/loader"
)

// Engine runs the step loop. Any goroutine may call Set, Requested, Pause, Suspend,
// Evaluate, Foresee and HostNeed. The rest belongs to the goroutine that calls Run.
type Engine struct {
	cfg     Config
	info    device.Info
	loader  *loader.Loader
	hung    error // the error of a loader's worker that Close left behind
	steps   *prepared.Steps
	ops     *ops.Table
	control control

	applied    Knobs // in force
	progress   progress
	rate       rate
	segments   segments
	pipeline   pipeline
	results    results
	suspension suspension
	timeline   timeline
	starved    starved
	publishAt  int64 // when to publish next, in ns
	keeper     keeper
}

// New prepares streams, events, the loader and the first steps. The caller closes
// the engine; the device and the data set stay the caller's.
func New(cfg Config) (*Engine, error) {
	info := cfg.Device.Info()
	if err := cfg.Knobs.Check(info); err != nil {
		return nil, err
	}
	if err := errors.Join(cfg.checkSchedule(&cfg.Knobs), cfg.checkSamples()); err != nil {
		return nil, err
	}
	e := &Engine{
		cfg: cfg, info: info, applied: cfg.Knobs,
		ops:        ops.NewTable(cfg.Device, cfg.Recorder),
		progress:   progress{epoch: -1},
		rate:       rate{rec: cfg.Recorder},
		suspension: suspension{from: -1},
		timeline:   newTimeline(cfg.Recorder),
	}
	e.control.open(cfg.Knobs)
	e.segments.timeline, e.segments.specs = &e.timeline, Specs(info)
	e.results = results{
		timeline: &e.timeline, ops: e.ops, transition: &e.segments.transition, suspension: &e.suspension,
		computes: info.Computes, modelled: info.Emulated && !info.Computes,
	}
	e.results.streams, _ = cfg.Device.(device.HostStreams)
	e.keeper = keeper{Keeping: cfg.Keeping, timeline: &e.timeline}
	e.pipeline = pipeline{dev: cfg.Device, name: info.Name, onHost: info.OnHost, ops: e.ops, timeline: &e.timeline, results: &e.results}
	e.starved.open()
	if err := e.prepare(); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

func (e *Engine) prepare() (err error) {
	if err := e.pipeline.open(); err != nil {
		return err
	}
	c := e.cfg.prepared()
	c.Quiesce = e.pipeline.finish
	e.steps, err = prepared.Open(c, e.applied.Knobs)
	if err != nil {
		return err
	}
	e.loader, err = loader.New(loader.Options{
		Dataset: e.cfg.Dataset, Transform: e.cfg.Transform, Seed: e.cfg.Seed, Recorder: e.cfg.Recorder,
		Alloc: e.cfg.Device, PinNote: e.info.PinNote, Epochs: e.cfg.Epochs, Knobs: e.applied.Loader,
		Hold: Hold, Start: e.cfg.position(),
	})
	if err != nil {
		return err
	}
	if err := e.begin(); err != nil {
		return err
	}
	return e.steps.Warm(e.applied.Knobs)
}

// Run trains until the epochs or steps are done, ctx is cancelled, or something
// fails. On every way out the steps in flight are waited for and recorded. A
// cancelled ctx is not an error.
func (e *Engine) Run(ctx context.Context) error {
	if err := e.pipeline.start(); err != nil {
		return fmt.Errorf("anchor the device's clock: %w", err)
	}
	e.openSegment("start", trace.Prediction{})
	e.noteRisks(prepared.Knobs{})
	err := e.loop(ctx)
	if done(err) && ctx.Err() == nil {
		err = errors.Join(unlessEnd(err), e.evaluateDue(ctx))
	}
	if ferr := e.pipeline.finish(); ferr != nil && done(err) {
		err = ferr
	}
	e.closeSegment()
	if done(err) {
		return nil
	}
	return err
}

// loop trains step after step and returns what ended it.
func (e *Engine) loop(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("train: the step loop panicked: %v\n%s", p, debug.Stack())
			e.pipeline.abort()
		}
	}()
	for e.cfg.Steps == 0 || int(e.progress.step) < e.cfg.Steps {
		if err = e.trainStep(ctx); err != nil {
			return err
		}
	}
	return nil
}

// done reports whether err is an ordinary end: the end of the loader, or of the run's
// context. Both come unwrapped. An error of the data set may wrap anything, even io.EOF
// and context.Canceled, and is a failure.
func done(err error) bool {
	return err == nil || err == loader.ErrEnd || err == context.Canceled //nolint:errorlint // what wraps them is another error
}

// publishPeriod is how often, in ns, the session gets what the engine knows besides its
// spans.
const publishPeriod = 2e9

// publish hands the session the table of ops, the device's memory and the learning rate.
func (e *Engine) publish(now int64) {
	e.publishAt = now + publishPeriod
	e.ops.Publish()
	e.steps.Publish()
	e.rate.show(e.steps.State())
}

// Set asks for knob changes. They are checked together, and all or none are taken. The
// engine applies them at its next step boundary, and the trace confirms them as a new
// segment.
func (e *Engine) Set(changes []knob.Setting) error {
	return e.control.set(changes, func(k *Knobs) error { return e.cfg.check(k, e.info) }, e.cfg.Predict)
}

// Requested returns the knobs last asked for.
func (e *Engine) Requested() []knob.Setting { return e.control.wanted.Load().List() }

// Pause stops the step loop at its next boundary, or lets it go on.
func (e *Engine) Pause(on bool) { e.control.pause(on) }

// Paused reports whether a pause is asked for.
func (e *Engine) Paused() bool { return e.control.paused.Load() }

// Suspend tells that the process is about to be stopped, or that it runs again.
func (e *Engine) Suspend(on bool) { e.suspension.set(on, e.timeline.rec) }

// Loader returns the loader's state, for gauges.
func (e *Engine) Loader() loader.Stats { return e.loader.Stats() }

// Memory, HostMemory and Tuned belong to the step loop's goroutine, or to anyone once
// Run has returned.

// Memory returns the most device memory that the run has planned for.
func (e *Engine) Memory() trace.Memory { return e.steps.Memory() }

// HostMemory returns the most of the host's memory that the run has planned for.
func (e *Engine) HostMemory() trace.HostMemory { return e.steps.HostMemory() }

// Tuned lists the decisions between kernel variants, where the device makes any.
func (e *Engine) Tuned() []device.Tuned { return e.steps.Tuned() }

// Hung returns, after Close, the error of a loader's worker that did not end and was left
// behind. The data set and the device must then stay open.
func (e *Engine) Hung() error { return e.hung }

// Close stops the loader and frees what the engine took from the device.
func (e *Engine) Close() error {
	if e.loader != nil && e.hung == nil {
		if e.hung = e.loader.Close(); e.hung != nil {
			e.timeline.rec.Note("warn", e.hung.Error())
		}
	}
	if e.steps != nil {
		e.steps.Close()
	}
	e.pipeline.close()
	return nil
}
