package loader

import "dev.gpustall/engine/trace"

// The scheduler. Every function here is called with mu held; only exchange and
// open release it meanwhile.

// exchange hands over the batch that w has built (s is nil the first time) and
// returns the next one to build, parking w until there is one. It returns nil
// when w has to end.
func (l *Loader) exchange(w *worker, s *slot, err error) *slot {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s != nil {
		l.building--
		l.complete(s, err)
	}
	for w.id < l.wanted() {
		s, why := l.take(l.k.InFlight())
		if s != nil {
			s.by = w
			l.building++
			l.wakeWorker()
			return s
		}
		if l.openable() {
			l.open(w)
			continue
		}
		l.parked = append(l.parked, w)
		l.mu.Unlock()
		w.park(why)
		l.mu.Lock()
	}
	l.workers[w.id] = nil
	l.running--
	return nil
}

// wanted is how many workers should run now. Without persistent workers they end
// with the epoch's last batch.
func (l *Loader) wanted() int {
	busy := l.k.PersistentWorkers || l.redo.n > 0 || l.opening || l.openable()
	if e := l.dispatching(); e != nil && !e.closed {
		busy = true
	}
	if l.closed || l.broken != nil || !busy {
		return 0
	}
	return l.k.NumWorkers
}

// reconcile starts the workers that are wanted and do not run. A worker that was to
// end after the batch it is building goes on if it is wanted again by then, so a track
// never has two writers.
func (l *Loader) reconcile() {
	for i := range l.wanted() {
		if l.workers[i] == nil {
			w := newWorker(l, i, trace.Worker(i))
			l.workers[i] = w
			l.running++
			l.wg.Add(1)
			go w.run()
		}
	}
}

// dispatching is the epoch that batches are cut from, or nil before the first.
func (l *Loader) dispatching() *epoch {
	if l.opened == 0 {
		return nil
	}
	return &l.ep[(l.opened-1)&1]
}

// openable reports whether the next epoch may be started: when Next has reached
// it, or one ahead when the workers live on.
func (l *Loader) openable() bool {
	if l.opening || l.epochs > 0 && l.opened >= l.epochs {
		return false
	}
	if l.opened == l.current {
		return true
	}
	ahead := l.k.PersistentWorkers && l.k.NumWorkers > 0
	return ahead && l.opened == l.current+1 && l.ep[l.current&1].closed
}

// open starts the next epoch. It shuffles outside the lock: the order it writes
// is that of an epoch whose last batch has been delivered.
func (l *Loader) open(w *worker) {
	n, shuffle, mixed, from := l.opened, l.k.Shuffle, l.mixes(), l.start
	if from != nil && from.Epoch == n {
		shuffle, mixed = from.Shuffle, from.Mixed
	} else {
		from = nil
	}
	sampler := l.sampler.Mixing(mixed)
	stream, _ := l.dataset.(*Streamed)
	if stream != nil {
		stream.mixing(mixed)
	}
	order := l.ep[n&1].order
	l.opening = true
	l.mu.Unlock()
	start := l.clock.Now()
	order = sampler.Order(order, n, shuffle)
	if from != nil && stream != nil {
		stream.passed(int32(n), from.passed(order))
	}
	w.record(trace.KindStart, -1, start, l.clock.Now(), 0)
	l.mu.Lock()
	l.opening = false
	l.ep[n&1] = epoch{order: order, shuffle: shuffle, mixed: mixed}
	if from != nil {
		l.ep[n&1].resume(from)
		l.start = nil
	}
	l.opened++
	l.reconcile()
	l.wakeAll()
	l.wakeNext()
}

// turn moves on to the next epoch when the current one is delivered.
func (l *Loader) turn() {
	if e := &l.ep[l.current&1]; l.opened > l.current && e.closed && e.pending == 0 {
		l.barren(e)
		l.current++
		l.reconcile()
		l.wakeAll()
	}
}

// take returns a slot to load: one whose load failed, or else the next batch if fewer
// than limit are in flight. Otherwise it returns nil and the reason.
func (l *Loader) take(limit int) (*slot, trace.BlockReason) {
	if s := l.redo.pop(); s != nil {
		s.state = loading
		s.pin, s.inject, s.onError, s.reads = l.k.PinMemory, l.k.Inject, l.k.OnError, l.k.ReadsInFlight
		return s, 0
	}
	if why, ok := l.obstacle(limit); !ok {
		return nil, why
	}
	s := l.free.pop()
	if s == nil { // the ceiling has them all
		s = l.kept.pop()
		s.keep = false
		l.keep--
	}
	e := l.dispatching()
	if s.keep = l.k.Ceiling && l.keep < l.hold && l.full(e); s.keep {
		l.keep++
	}
	s.order = e.cut(s, l.k.BatchSize, l.k.DropLast)
	l.number(s, l.opened-1)
	s.state = loading
	s.Device, s.pin, s.inject, s.onError, s.reads = l.k.DeviceTransforms, l.k.PinMemory, l.k.Inject, l.k.OnError, l.k.ReadsInFlight
	s.size = min(l.k.BatchSize, l.info.Samples)
	l.flight.push(s)
	return s, 0
}

// obstacle says why no batch can be dispatched now.
func (l *Loader) obstacle(limit int) (trace.BlockReason, bool) {
	e := l.dispatching()
	switch {
	case e == nil || e.closed:
		return trace.BlockIdle, false
	case l.saturated(e):
		return trace.BlockPaused, false
	case l.flight.n >= limit:
		return trace.BlockPrefetch, false
	case l.free.n == 0 && l.kept.n == 0:
		return trace.BlockSlot, false
	}
	return 0, true
}

// number gives s its place in the session.
func (l *Loader) number(s *slot, epoch int) {
	s.Seq, s.Epoch, s.Load, s.Work, s.Built, s.Ready, s.Last = l.seq, int32(epoch), 0, trace.Work{}, trace.Built{}, 0, false
	l.seq++
}

// complete makes a loaded batch, or one whose load failed, ready.
func (l *Loader) complete(s *slot, err error) {
	s.state, s.err, s.Ready = ready, err, l.clock.Now()
	if err == nil {
		l.tell(s)
	}
	l.ready[s.Epoch&1].push(s)
	l.sampleQueue()
	if !l.k.InOrder || l.flight.head == s {
		l.wakeNext()
	}
}

// pick takes the batch whose turn it is from the ready ones, or returns nil.
func (l *Loader) pick() *slot {
	s := l.ready[l.current&1].head
	if l.k.InOrder {
		s = l.flight.head
	}
	if s == nil || s.state != ready {
		return nil
	}
	l.ready[s.Epoch&1].remove(s)
	return s
}

// deliver makes s the caller's.
func (l *Loader) deliver(s *slot) *Batch {
	e := &l.ep[s.Epoch&1]
	e.pending--
	e.delivered++
	s.Last = e.closed && e.pending == 0
	s.state = held
	l.held++
	l.wakeWorker()
	return &s.Batch
}

// heldUp is the batch that in_order alone makes Next wait for, while others of its
// epoch are ready; -1 when there is none.
func (l *Loader) heldUp() int32 {
	s := l.flight.head
	if !l.k.InOrder || s == nil || s.state == ready || l.ready[s.Epoch&1].n == 0 {
		return -1
	}
	return s.Seq
}

// sampleQueue records the ready batches, in whatever turn, and which one holds them
// up. It is called whenever either changes. The queue's track is written under mu
// alone, so it has one writer at a time.
func (l *Loader) sampleQueue() {
	if l.queue != nil {
		now := l.clock.Now()
		l.queue.Record(trace.Span{
			Start: now, End: now, Step: -1, Batch: l.heldUp(), Kind: trace.KindQueue,
			Arg: uint32(l.ready[0].n + l.ready[1].n), Flags: uint16(l.k.InFlight()),
		})
	}
}

// wakeWorker wakes the worker parked longest, if there is a batch for it. A worker
// that takes a batch wakes the next one, so one call is enough however many batches
// became possible.
func (l *Loader) wakeWorker() {
	if len(l.parked) == 0 {
		return
	}
	if _, ok := l.obstacle(l.k.InFlight()); !ok && l.redo.n == 0 {
		return
	}
	w := l.parked[0]
	l.parked = append(l.parked[:0], l.parked[1:]...)
	w.wake <- struct{}{}
}

// wakeAll wakes every parked worker, to look at the knobs or the epoch anew.
func (l *Loader) wakeAll() {
	for _, w := range l.parked {
		w.wake <- struct{}{}
	}
	l.parked = l.parked[:0]
}

// wakeNext wakes Next, if it waits.
func (l *Loader) wakeNext() {
	if l.waiting {
		select {
		case l.signal <- struct{}{}:
		default:
		}
	}
}
