package loader

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/trace"
)

// Options are what a loader is made of.
type Options struct {
	Dataset   Dataset
	Transform Transform
	Seed      int64
	Recorder  *trace.Recorder // nil records nothing
	Alloc     Allocator       // for page-locked slots
	PinNote   string          // why pin_memory has no effect on this device; empty when it has one
	Epochs    int             // 0: endless
	Knobs     Knobs
	// Hold is how many batches the caller keeps unreleased at the most, the one
	// last returned by Next included. The loader has that many slots on top of
	// num_workers x prefetch_factor, so that Next cannot wait for a Release that
	// only its caller can do. 0 means 1.
	Hold int
	// Start is where an earlier loader of the same data and seed left off; nil is the
	// beginning.
	Start *Position
}

// Loader delivers a data set as batches, epoch after epoch. Next is for one
// goroutine at a time; everything else may be called from any.
type Loader struct {
	dataset   Dataset
	transform Transform
	cropper   Cropper   // the transform, if it is one
	planar    Planar    // the transform, if it takes the data set's images as planes
	resident  Resident  // the data set, if it is one
	announced Announced // likewise
	info      Info
	sampler   Sampler
	seed      int64
	alloc     Allocator
	pins      bool // pin_memory has an effect
	epochs    int  // 0: endless
	hold      int
	rec       *trace.Recorder // may be nil
	clock     trace.Clock
	queue     *trace.Track    // written under mu alone; nil without a recorder
	ctx       context.Context // ends at Close
	cancel    context.CancelFunc

	slotBytes, pinnedBytes atomic.Int64

	mu     sync.Mutex
	k      Knobs // in force
	closed bool
	broken error // a worker's panic, for good

	// Epochs: current is being delivered; those before opened have an order.
	ep              [2]epoch // by parity
	current, opened int
	opening         bool      // someone is shuffling
	start           *Position // of the epoch that is yet to be opened; nil once it is, and without one
	seq             int32

	// Slots.
	slots  []*slot
	free   list
	kept   list    // the ceiling's
	keep   int     // slots kept or to be kept
	redo   list    // to be loaded again
	ready  [2]list // by the epoch's parity, in the order of completion
	flight list    // undelivered, in the order of dispatch
	held   int
	failed *slot   // its error was returned last
	scrap  []*slot // no longer slots; their memory is to be freed

	skipped      int          // samples
	firstSkipped *SampleError // why the first was
	told         []int        // their indices, of those named in the session

	// Workers.
	workers  [maxWorkers]*worker
	running  int
	building int       // batches that workers are loading
	parked   []*worker // longest first
	wg       sync.WaitGroup
	sched    scheduler // Go's, as they feel it

	// Next.
	inline   inline
	inNext   bool
	waiting  bool
	signal   chan struct{}
	timer    *time.Timer
	nextDone sync.Cond
}

// Stats is a look at the loader.
type Stats struct {
	Ready    int // batches that Next could return, now or in their turn
	Capacity int // batches that may be in flight: num_workers x prefetch_factor
	InFlight int // batches started and not yet returned by Next
	Workers  int // running
	Slots    int
	Held     int // batches returned by Next and not yet released

	SlotBytes   int64 // memory of all slots
	PinnedBytes int64 // the page-locked part of it

	Epoch     int // being delivered
	Delivered int // samples of it handed to workers or to Next so far
	Skipped   int // samples left out by on_error=skip, since the start
}

// New returns a loader and starts its workers, which begin to load the first
// epoch. The caller closes it, and then the data set.
func New(o Options) (*Loader, error) {
	if o.Dataset == nil || o.Transform == nil {
		return nil, errors.New("loader: new: a data set and a transform are needed")
	}
	info := InfoOf(o.Dataset, o.Transform)
	if info.Samples < 1 || info.Samples > math.MaxInt32 {
		return nil, errs.New("load", info.Name, fmt.Sprintf("it has %d samples", info.Samples), fmt.Sprintf("give it 1 to %d", math.MaxInt32))
	}
	if info.T < 0 || info.H < 1 || info.W < 1 || info.C < 1 {
		return nil, errs.New("load", info.Name, "it has samples of "+info.Shape(), "give it samples of at least 1x1x1")
	}
	if o.Epochs < 0 || o.Hold < 0 {
		return nil, fmt.Errorf("loader: new: epochs=%d and hold=%d must not be negative", o.Epochs, o.Hold)
	}
	if err := o.Knobs.check(info); err != nil {
		return nil, err
	}
	if o.Start != nil {
		if err := o.Start.check(info); err != nil {
			return nil, err
		}
	}
	l := &Loader{
		dataset: o.Dataset, transform: o.Transform, info: info, sampler: NewSampler(o.Seed, info.Samples),
		seed: o.Seed, alloc: o.Alloc, pins: o.Alloc != nil && o.PinNote == "", epochs: o.Epochs,
		hold: max(o.Hold, 1), rec: o.Recorder, k: o.Knobs,
		free: list{which: inState}, kept: list{which: inState}, redo: list{which: inState},
		ready: [2]list{{which: inState}, {which: inState}}, flight: list{which: inFlight},
		parked: make([]*worker, 0, maxWorkers), signal: make(chan struct{}, 1), timer: stoppedTimer(),
	}
	l.cropper, _ = o.Transform.(Cropper)
	l.resident, _ = o.Dataset.(Resident)
	l.announced, _ = o.Dataset.(Announced)
	if p, ok := o.Transform.(Planar); ok && p.TakesPlanes(o.Dataset.Info().W, o.Dataset.Info().H) {
		l.planar = p
	}
	if g, ok := o.Dataset.(Grouped); ok {
		l.sampler = l.sampler.Grouped(g.Grouping())
	}
	if o.Start != nil {
		from := *o.Start
		l.start, l.current, l.opened = &from, from.Epoch, from.Epoch
		l.ep[(from.Epoch+1)&1].closed = true // the epoch before: nothing is to be cut from it
	}
	l.nextDone.L = &l.mu
	l.ctx, l.cancel = context.WithCancel(context.Background())
	if l.rec != nil {
		l.clock, l.queue = l.rec, l.rec.Track(trace.TrackQueue)
	} else {
		l.clock = trace.NewClock()
	}
	l.sched.clock = l.clock
	l.sched.workers.Store(int32(l.k.NumWorkers))
	l.inline = newInline(l)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resize()
	l.reconcile()
	return l, nil
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// Knobs returns the knobs in force.
func (l *Loader) Knobs() Knobs {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.k
}

// Set puts knobs in force, from the next dispatched batch on (Specs says which
// take longer). It is refused as a whole, and changes nothing, when the knobs do
// not fit together or the data set.
func (l *Loader) Set(k Knobs) error {
	if err := k.check(l.info); err != nil {
		return err
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return fmt.Errorf("loader: set: %w", ErrClosed)
	}
	old := l.k
	l.k = k
	l.sched.workers.Store(int32(k.NumWorkers))
	if !k.Ceiling || k.BatchSize != old.BatchSize || k.DeviceTransforms != old.DeviceTransforms || k.PinMemory != old.PinMemory {
		l.forgetKept()
	}
	if k.InOrder != old.InOrder {
		l.sampleQueue()
	}
	l.resize()
	l.reconcile()
	l.wakeAll()
	l.wakeNext()
	l.mu.Unlock()
	l.sweep()
	return nil
}

// Stats returns a look at the loader. It is cheap: a lock and no scan.
func (l *Loader) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Stats{
		Ready: l.ready[0].n + l.ready[1].n, Capacity: l.k.InFlight(), InFlight: l.flight.n,
		Workers: l.running, Slots: len(l.slots), Held: l.held,
		SlotBytes: l.slotBytes.Load(), PinnedBytes: l.pinnedBytes.Load(), Epoch: l.current, Skipped: l.skipped,
	}
	if l.opened > l.current {
		s.Delivered = l.ep[l.current&1].pos
	}
	return s
}

// patience is how long Close waits for the workers. A read that hangs (a dead
// network file system) notices no context.
const patience = time.Second

// Close stops the workers, makes a blocked Next return ErrClosed and waits for
// both. A worker that does not end is abandoned after a while: the error, the only
// one there is, then wraps ErrHung, and the data set and the allocator must stay
// open, since that worker may still use them. Batches that the caller still holds
// stay valid until their Release, which then frees them. Closing twice is harmless.
func (l *Loader) Close() error {
	l.mu.Lock()
	l.closed = true
	l.cancel()
	l.wakeAll()
	l.wakeNext()
	for l.inNext {
		l.nextDone.Wait()
	}
	l.mu.Unlock()
	ended := l.ended(patience)

	l.mu.Lock()
	var err error
	if !ended {
		err = errs.New("close the loader at", l.at(), fmt.Sprintf("its worker did not end within %v and was left behind", patience), "check the disk or the network file system").Because(ErrHung)
	}
	rest := l.slots[:0]
	for _, s := range l.slots {
		switch {
		case s.state == held, s.state == loading && !ended:
			rest = append(rest, s)
		case s.state == gone: // Release frees it
		default:
			l.scrap = append(l.scrap, s)
		}
	}
	l.slots = rest
	l.mu.Unlock()
	l.sweep()
	return err
}

// ended waits for the workers' goroutines and reports whether they ended in time.
func (l *Loader) ended(limit time.Duration) bool {
	done := make(chan struct{})
	go func() {
		l.wg.Wait() // as long as the hung one takes
		close(done)
	}()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-done:
		return true
	case <-late.C:
		return false
	}
}

// at says at which sample the worker of the oldest batch is, for errors. Called
// with mu held.
func (l *Loader) at() string {
	for s := l.flight.head; s != nil; s = s.links[inFlight].next {
		if s.state == loading {
			if i := s.by.index.Load(); i >= 0 {
				return fmt.Sprintf("sample %d of %s", i, errs.Path(l.info.Name))
			}
		}
	}
	return "no sample"
}
