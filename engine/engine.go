// Package engine trains: it takes batches from the loader, copies them to the
// device and enqueues the step's launches, and writes down when each of these
// happened. Knobs change at step boundaries; nothing here waits for a screen.
package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/nn"
	"dev.gpustall/engine/ops"
	"dev.gpustall/engine/plan"
	"dev.gpustall/engine/trace"
	"dev.gpustall/kernels"
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
	Device   device.Device
	Recorder *trace.Recorder
	Model    *nn.Model // nil with Fixed
	// Fixed makes the step of a modelled workload without a network: one
	// operation whose time the device knows.
	Fixed     func(samples int) device.Operation
	Dataset   loader.Dataset
	Transform loader.Transform
	Seed      int64
	Epochs    int // 0: endless
	Steps     int // 0: no limit
	Schedule  nn.Schedule
	Knobs     Knobs

	// TuneLimit is how long New may try variants of the kernels, where the device has
	// several; 0: not at all.
	TuneLimit time.Duration
	Start     context.Context                    // ends a long New; nil: nothing does
	Progress  func(what string, done, total int) // is told what takes New long; nil: nobody
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
	applied     Knobs
	segment     trace.Segment
	change      transition
	ineffective []string // of the segment: what was said of knobs without effect
	publishAt   int64    // when to publish next, in ns

	paused    atomic.Bool
	suspended suspension
	wake      chan struct{} // a resume, capacity 1

	micro        int // batches whose gradients wait for the optimizer
	step         int32
	firstInEpoch bool
	diverged     bool // a loss was no number, and a note said so
	tracks       struct{ step, copy, compute *trace.Track }
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
		applied:   cfg.Knobs, wake: make(chan struct{}, 1), firstInEpoch: true,
	}
	knobs := cfg.Knobs
	e.wanted.Store(&knobs)
	e.tracks.step = e.rec.Track(trace.TrackStep)
	e.tracks.copy = e.rec.Track(trace.TrackCopy)
	e.tracks.compute = e.rec.Track(trace.TrackCompute)
	if err := e.prepare(); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

func (e *Engine) prepare() (err error) {
	if e.copyStream, err = e.dev.NewStream("copy"); err != nil {
		return fmt.Errorf("create the copy stream on %s: %w", e.info.Name, err)
	}
	if e.computeStream, err = e.dev.NewStream("compute"); err != nil {
		return fmt.Errorf("create the compute stream on %s: %w", e.info.Name, err)
	}
	for i := range e.ring {
		if err = e.ring[i].prepare(e.dev); err != nil {
			return fmt.Errorf("create events on %s: %w", e.info.Name, err)
		}
	}
	mean, std := e.cfg.Transform.Normalisation()
	e.plans, err = plan.Open(plan.Config{
		Device: e.dev, Recorder: e.rec, Quiesce: e.finish,
		Model: e.cfg.Model, Fixed: e.cfg.Fixed, Seed: e.cfg.Seed,
		Dataset: e.cfg.Dataset.Info(), Mean: mean, Std: std,
		TuneLimit: e.cfg.TuneLimit, Start: e.cfg.Start, Progress: e.cfg.Progress,
	}, e.applied.Knobs)
	if err != nil {
		return err
	}
	e.loader, err = loader.New(loader.Options{
		Dataset: e.cfg.Dataset, Transform: e.cfg.Transform, Seed: e.cfg.Seed, Recorder: e.rec,
		Alloc: e.dev, PinNote: e.info.PinNote, Epochs: e.cfg.Epochs, Knobs: e.applied.Loader,
		Hold: Hold,
	})
	if err != nil {
		return err
	}
	return e.plans.Warm(e.applied.Knobs)
}

// Run trains until the epochs or steps are done, ctx is cancelled, or something
// fails. On every way out the steps in flight are waited for and recorded. A
// cancelled ctx is not an error.
func (e *Engine) Run(ctx context.Context) error {
	if err := e.clock.start(e.dev, e.computeStream, e.rec); err != nil {
		return fmt.Errorf("anchor the device's clock: %w", err)
	}
	e.openSegment("start")
	err := e.loop(ctx)
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

// trainStep is one step as the data flows.
func (e *Engine) trainStep(ctx context.Context) error {
	if err := e.boundary(ctx); err != nil {
		return err
	}
	batch, err := e.next(ctx)
	if err != nil {
		return err
	}
	if err := e.enqueue(batch); err != nil {
		return err
	}
	return e.resolve()
}

// next takes a batch; the wait here is the data stall.
func (e *Engine) next(ctx context.Context) (*loader.Batch, error) {
	start := e.rec.Now()
	b, err := e.loader.Next(ctx)
	if err != nil {
		e.span(trace.KindNext, start, -1, 0)
		if done(err) {
			return nil, err
		}
		return nil, fmt.Errorf("load a batch: %w", err)
	}
	e.span(trace.KindNext, start, b.Seq, b.Flags)
	return b, nil
}

// enqueue sends the batch to the device and the step's launches after it.
func (e *Engine) enqueue(b *loader.Batch) error {
	plan, err := e.planOf(b)
	if err != nil {
		b.Release()
		return err
	}
	f := &e.ring[e.head%len(e.ring)]
	start := e.rec.Now()
	f.begin(b, e.step, e.segment.Index)
	slot := plan.Slot(e.step)
	f.prog = slot.Program(e.micro+1 == e.applied.Accumulate)
	if err = e.send(f, slot); err != nil {
		e.abort()
		return fmt.Errorf("enqueue step %d on %s: %w", e.step, e.info.Name, err)
	}
	f.enqueued = start
	f.flags = b.Flags | e.change.flag()
	if e.firstInEpoch {
		f.flags |= trace.FlagFirstOfEpoch
	}
	e.firstInEpoch = b.Last
	if b.Last {
		f.flags |= trace.FlagLastOfEpoch
	}
	e.head++
	f.host = e.span(trace.KindEnqueue, start, b.Seq, b.Flags)
	e.step++
	e.micro = (e.micro + 1) % e.applied.Accumulate
	e.change.delivered()
	return nil
}

// planOf finds the plan of a batch, or builds it.
func (e *Engine) planOf(b *loader.Batch) (*plan.Plan, error) {
	key := plan.Key{Samples: b.N, DeviceTransforms: b.Device}
	if p := e.plans.Find(key); p != nil {
		return p, nil
	}
	start := e.rec.Now()
	p, err := e.plans.Build(key)
	e.span(trace.KindRebuild, start, b.Seq, 0)
	return p, err
}

// send makes the step's calls of the device, in their order. It stops at the
// first that fails: a later one could run on data that is not there.
func (e *Engine) send(f *flight, slot *plan.Slot) error {
	if err := e.setHyper(); err != nil {
		return err
	}
	if err := e.copyIn(f, slot.Input); err != nil {
		return err
	}
	if err := e.compute(f); err != nil {
		return err
	}
	if err := slot.ReadMetrics(e.dev, e.computeStream, f.metrics); err != nil {
		return err
	}
	if err := e.readScale(f); err != nil {
		return err
	}
	return e.dev.Record(e.computeStream, f.done)
}

// copyIn enqueues the copy of the batch to its input slot.
func (e *Engine) copyIn(f *flight, input device.Buffer) error {
	if e.head >= plan.Slots { // an earlier step reads the same slot
		earlier := &e.ring[(e.head-plan.Slots)%len(e.ring)]
		if err := e.dev.Wait(e.copyStream, earlier.end); err != nil {
			return err
		}
	}
	if err := e.dev.Record(e.copyStream, f.copyStart); err != nil {
		return err
	}
	if err := e.dev.CopyIn(e.copyStream, input, f.batch.Host); err != nil {
		return err
	}
	return e.dev.Record(e.copyStream, f.copyEnd)
}

// compute enqueues the step's program, behind the copy of its batch.
func (e *Engine) compute(f *flight) (err error) {
	if err = e.dev.Wait(e.computeStream, f.copyEnd); err != nil {
		return err
	}
	if err = e.dev.Record(e.computeStream, f.start); err != nil {
		return err
	}
	if f.timing, err = e.ops.Launch(e.computeStream, f.prog); err != nil {
		return err
	}
	return e.dev.Record(e.computeStream, f.end)
}

// readScale brings the loss scale of fp16 to the host, behind an update.
func (e *Engine) readScale(f *flight) error {
	f.scaled = e.applied.Precision == kernels.F16 && e.micro+1 == e.applied.Accumulate && e.plans.State() != nil && e.info.Computes
	if !f.scaled {
		return nil
	}
	return e.plans.State().ReadScale(e.computeStream, f.metrics[nn.MetricsSize:])
}

// abort gives up a step that was enqueued in part: its batch and the device's
// memory may go once neither stream holds any of it.
func (e *Engine) abort() {
	f := &e.ring[e.head%len(e.ring)]
	for _, s := range [...]device.Stream{e.copyStream, e.computeStream} {
		if e.dev.Record(s, f.done) == nil {
			_ = e.dev.Sync(f.done) // the error that led here is the one to tell
		}
	}
	if f.batch != nil {
		f.batch.Release()
		f.batch = nil
	}
}

// setHyper follows the schedule; it does nothing once the rate is constant.
func (e *Engine) setHyper() error {
	state := e.plans.State()
	if state == nil {
		return nil
	}
	if h := e.cfg.Schedule.At(int(e.step)); h != state.Hyper() {
		return state.SetHyper(e.computeStream, h)
	}
	return nil
}

// span records what the step loop did from start until now, and returns how long
// that was, in ns.
func (e *Engine) span(k trace.Kind, start int64, batch int32, flags uint16) int64 {
	now := e.rec.Now()
	e.tracks.step.Record(trace.Span{Start: start, End: now, Step: e.step, Batch: batch, Kind: k, Flags: flags})
	return now - start
}

// Loader tells the loader's state, for gauges.
func (e *Engine) Loader() loader.Stats { return e.loader.Stats() }

// Ops, Memory and Tuned belong to the step loop's goroutine, or to anyone once Run
// has returned.

// Ops returns the device time of every op so far, by segment and in the order of
// the step.
func (e *Engine) Ops() []trace.OpTime { return e.ops.Rows() }

// Memory is the most device memory that the run has planned for.
func (e *Engine) Memory() trace.Memory { return e.plans.Memory() }

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

var nan32 = float32(math.NaN())
