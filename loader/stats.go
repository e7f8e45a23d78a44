package loader

// Stats describes the loader at one moment.
type Stats struct {
	Ready    int // batches that Next can return, now or when it is their turn
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

// Stats returns what the loader is doing now. It is cheap: a lock and no scan.
func (l *Loader) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Stats{
		Ready: l.queue.depth(), Capacity: l.knobs.InFlight(), InFlight: l.queue.flight.n,
		Workers: l.pool.running, Slots: len(l.slots.all), Held: l.slots.held,
		SlotBytes: l.memory.bytes.Load(), PinnedBytes: l.memory.pinned.Load(),
		Epoch: l.schedule.current, Skipped: l.skips.samples,
	}
	if e := l.schedule.delivering(); e != nil {
		s.Delivered = e.pos
	}
	return s
}
