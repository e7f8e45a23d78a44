package loader

import "dev.gpustall/engine/trace"

// This file decides which worker builds which batch. Unless its comment says otherwise, a
// function here is called with mu held. exchange and open release it meanwhile.

// exchange hands over the batch that w has built (s is nil the first time) and
// returns the next one to build, parking w until there is one. It returns nil
// when w has to end.
func (l *Loader) exchange(w *worker, s *slot, err error) *slot {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s != nil {
		l.complete(s, err)
	}
	for w.id < l.wanted() {
		s, why := l.take(l.knobs.InFlight())
		if s != nil {
			l.pool.build(w, s)
			l.wakeWorker()
			return s
		}
		if l.schedule.openable(&l.knobs) {
			l.open(w)
			continue
		}
		l.pool.park(w)
		l.mu.Unlock()
		w.park(why)
		l.mu.Lock()
	}
	l.pool.remove(w)
	return nil
}

// wanted returns how many workers should run now. Without persistent workers they end
// with the epoch's last batch.
func (l *Loader) wanted() int {
	busy := l.knobs.PersistentWorkers || l.queue.redo.n > 0 || l.schedule.busy(&l.knobs)
	if l.closed || l.broken != nil || !busy {
		return 0
	}
	return l.knobs.NumWorkers
}

// reconcile starts wanted workers that do not run. A worker that should end after its batch
// goes on if it is wanted again by then, so a track never has two writers.
func (l *Loader) reconcile() {
	for i := range l.wanted() {
		if l.pool.workers[i] == nil {
			l.pool.start(newWorker(l, i, trace.Worker(i)))
		}
	}
}

// open starts the next epoch. It releases mu while it shuffles.
func (l *Loader) open(w *worker) {
	o := l.schedule.begin(&l.knobs)
	l.mu.Unlock()
	start := l.clock.Now()
	l.schedule.order(&o)
	w.record(trace.KindStart, -1, start, l.clock.Now(), 0)
	l.mu.Lock()
	l.schedule.add(o)
	l.reconcile()
	l.pool.wakeAll()
	l.consumer.wake()
}

// turn moves on to the next epoch when the current one is delivered.
func (l *Loader) turn() {
	if e := l.schedule.delivering(); e != nil && e.done() {
		if err := l.skips.barren(e, l.schedule.current); err != nil {
			l.stop(err)
		}
		l.schedule.current++
		l.reconcile()
		l.pool.wakeAll()
	}
}

// take returns a slot to load. This is a slot whose load failed, or else the next batch
// if fewer than limit are in flight. Otherwise take returns nil and the reason.
func (l *Loader) take(limit int) (*slot, trace.BlockReason) {
	if s := l.queue.redo.pop(); s != nil {
		s.state = loading
		s.apply(&l.knobs)
		return s, 0
	}
	if why, ok := l.obstacle(limit); !ok {
		return nil, why
	}
	s := l.slots.free.pop()
	if s == nil { // the ceiling has them all
		s = l.ceiling.batches.pop()
		l.ceiling.unclaim(s)
	}
	e := l.schedule.dispatching()
	l.ceiling.claim(s, e, &l.knobs)
	s.order = e.cut(s, l.knobs.BatchSize, l.knobs.DropLast)
	l.schedule.number(s, l.schedule.opened-1)
	s.state = loading
	s.Device = l.knobs.DeviceTransforms
	s.size = min(l.knobs.BatchSize, l.input.info.Samples)
	s.apply(&l.knobs)
	l.queue.flight.push(s)
	return s, 0
}

// obstacle says why no batch can be dispatched now.
func (l *Loader) obstacle(limit int) (trace.BlockReason, bool) {
	e := l.schedule.dispatching()
	switch {
	case e == nil || e.closed:
		return trace.BlockIdle, false
	case l.ceiling.serves(e, &l.knobs):
		return trace.BlockPaused, false
	case l.queue.flight.n >= limit:
		return trace.BlockPrefetch, false
	case l.slots.free.n == 0 && l.ceiling.batches.n == 0:
		return trace.BlockSlot, false
	}
	return 0, true
}

// complete makes a batch that a worker has loaded, or failed to load, ready.
func (l *Loader) complete(s *slot, err error) {
	l.pool.building--
	l.queue.add(s, err)
	if err == nil && len(s.skipped) > 0 {
		l.ceiling.unclaim(s) // the ceiling's batches are full
		l.skips.count(s)
	}
	l.queue.record(&l.knobs)
	if !l.knobs.InOrder || l.queue.flight.head == s {
		l.consumer.wake()
	}
}

// wakeWorker wakes the worker parked longest, if there is a batch for it. A worker
// that takes a batch wakes the next one, so one call is enough however many batches
// became possible.
func (l *Loader) wakeWorker() {
	if len(l.pool.parked) == 0 {
		return
	}
	if _, ok := l.obstacle(l.knobs.InFlight()); ok || l.queue.redo.n > 0 {
		l.pool.wakeOne()
	}
}

// trim retires the free slots that the knobs do not ask for.
func (l *Loader) trim() { l.slots.trim(l.knobs.slots(l.ceiling.hold)) }

// release is Batch.Release. It is called without mu, as are sweep, bury and fail.
func (l *Loader) release(s *slot) {
	l.mu.Lock()
	if s.state != held { // released twice
		l.mu.Unlock()
		return
	}
	l.slots.held--
	switch {
	case l.closed:
		s.state = gone
		l.mu.Unlock()
		l.memory.drop(s)
		return
	case s.keep:
		l.ceiling.put(s)
	default:
		l.slots.put(s)
		l.trim()
	}
	l.wakeWorker()
	l.consumer.wake()
	l.mu.Unlock()
}

// sweep frees the memory of retired slots. It does so without mu, because freeing page-locked
// memory takes the driver long.
func (l *Loader) sweep() {
	for {
		l.mu.Lock()
		s := l.slots.retired()
		l.mu.Unlock()
		if s == nil {
			return
		}
		l.memory.drop(s)
	}
}

// bury replaces a worker whose goroutine ended while it built s.
func (l *Loader) bury(w *worker, s *slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pool.remove(w)
	if s != nil {
		l.complete(s, w.failure(s, errAborted, nil))
	}
	l.reconcile()
}

// fail ends the loader's work after a panic outside of any batch. Next returns err from now
// on.
func (l *Loader) fail(w *worker, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pool.remove(w)
	l.stop(err)
}

// stop ends the loader's work for good. Called with mu held.
func (l *Loader) stop(err error) {
	if l.broken == nil {
		l.broken = err
	}
	l.pool.wakeAll()
	l.consumer.wake()
}
