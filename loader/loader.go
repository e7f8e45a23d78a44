package loader

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/trace"
)

// Options are the settings of New.
type Options struct {
	Dataset   Dataset
	Transform Transform
	Seed      int64
	Recorder  *trace.Recorder // nil records nothing
	Alloc     Allocator       // for page-locked slots
	PinNote   string          // why pin_memory has no effect on this device; empty when it has one
	Epochs    int             // 0: endless
	Knobs     Knobs
	// Hold is how many unreleased batches the caller keeps at most, including the one that Next
	// returned last. The loader has that many slots on top of num_workers x prefetch_factor. So
	// Next never waits for a Release that only its caller can do. 0 means 1.
	Hold int
	// Start is where an earlier loader of the same data and seed stopped; nil is the beginning.
	Start *Position
}

// Loader delivers a data set as batches, epoch after epoch. One goroutine at a time may
// call Next. Any goroutine may call the rest.
type Loader struct {
	input  input
	memory slotMemory
	rec    *trace.Recorder // may be nil
	clock  trace.Clock
	ctx    context.Context // ends at Close
	cancel context.CancelFunc

	mu       sync.Mutex // guards all that follows
	knobs    Knobs      // in force
	closed   bool
	broken   error // why the loader has stopped for good: a worker's panic, or an epoch without a loadable sample
	schedule schedule
	slots    slots
	queue    queue
	ceiling  ceiling
	skips    skips
	pool     pool
	consumer consumer
}

// New returns a loader and starts its workers, which begin to load the first
// epoch. The caller closes it, and then the data set.
func New(o Options) (*Loader, error) {
	if o.Dataset == nil || o.Transform == nil {
		return nil, errors.New("loader: new: a data set and a transform are needed")
	}
	in := newInput(o.Dataset, o.Transform, o.Seed)
	info := &in.info
	if info.Samples < 1 || info.Samples > math.MaxInt32 {
		return nil, errs.New("load", info.Name, fmt.Sprintf("it has %d samples", info.Samples), fmt.Sprintf("give it 1 to %d", math.MaxInt32))
	}
	if info.T < 0 || info.H < 1 || info.W < 1 || info.C < 1 {
		return nil, errs.New("load", info.Name, "it has samples of "+info.Shape(), "give it samples of at least 1x1x1")
	}
	if o.Epochs < 0 || o.Hold < 0 {
		return nil, fmt.Errorf("loader: new: epochs=%d and hold=%d must not be negative", o.Epochs, o.Hold)
	}
	if err := o.Knobs.check(*info); err != nil {
		return nil, err
	}
	if o.Start != nil {
		if err := o.Start.check(*info); err != nil {
			return nil, err
		}
	}
	l := &Loader{
		input: in, memory: slotMemory{alloc: o.Alloc, pins: o.Alloc != nil && o.PinNote == ""}, rec: o.Recorder, knobs: o.Knobs,
		schedule: newSchedule(&in, o.Epochs, o.Start), slots: newSlots(), ceiling: newCeiling(max(o.Hold, 1)),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	var track *trace.Track
	if l.rec != nil {
		l.clock, track = l.rec, l.rec.Track(trace.TrackQueue)
	} else {
		l.clock = trace.NewClock()
	}
	l.queue = newQueue(l.clock, track)
	l.skips = skips{in: &l.input, rec: l.rec}
	l.consumer = newConsumer(&l.mu)
	l.pool.parked = make([]*worker, 0, maxWorkers)
	l.pool.sched.clock, l.pool.sched.waits = l.clock, new(host.Scheduler)
	l.pool.sched.workers.Store(int32(l.knobs.NumWorkers))
	l.pool.inline = newInline(l)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resize()
	l.reconcile()
	return l, nil
}

// resize makes or retires slots until the knobs have as many as they need. Called with mu held.
func (l *Loader) resize() { l.slots.resize(l.knobs.slots(l.ceiling.hold), l.release) }

// Knobs returns the knobs in force.
func (l *Loader) Knobs() Knobs {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.knobs
}

// Set puts knobs in force, from the next dispatched batch on (Specs says which take longer). If
// the knobs do not fit together, or do not fit the data set, Set refuses them all and changes
// nothing.
func (l *Loader) Set(k Knobs) error {
	if err := k.check(l.input.info); err != nil {
		return err
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return fmt.Errorf("loader: set: %w", ErrClosed)
	}
	old := l.knobs
	l.knobs = k
	l.pool.sched.workers.Store(int32(k.NumWorkers))
	if !k.Ceiling || k.BatchSize != old.BatchSize || k.DeviceTransforms != old.DeviceTransforms || k.PinMemory != old.PinMemory {
		l.ceiling.forget(&l.slots)
	}
	if k.InOrder != old.InOrder {
		l.queue.record(&l.knobs)
	}
	l.resize()
	l.reconcile()
	l.pool.wakeAll()
	l.consumer.wake()
	l.mu.Unlock()
	l.sweep()
	return nil
}

// patience is how long Close waits for the workers. A read that hangs (a dead network file
// system) does not notice that its context has ended.
const patience = time.Second

// Close stops the workers, makes a blocked Next return ErrClosed and waits for both. A worker
// that does not end is left behind after a while. Close then returns its only error, which
// wraps ErrHung. The data set and the allocator must then stay open, because that worker may
// still use them. Batches that the caller still holds stay valid until their Release, which
// then frees them. Closing twice is harmless.
func (l *Loader) Close() error {
	l.mu.Lock()
	l.closed = true
	l.cancel()
	l.pool.wakeAll()
	l.consumer.wake()
	l.consumer.await()
	l.mu.Unlock()
	ended := l.pool.ended(patience)

	l.mu.Lock()
	var err error
	if !ended {
		err = errs.New("close the loader at", l.queue.at(l.input.info.Name), fmt.Sprintf("its worker did not end within %v and was left behind", patience), "check the disk or the network file system").Because(ErrHung)
	}
	l.slots.close(!ended)
	l.mu.Unlock()
	l.sweep()
	return err
}
