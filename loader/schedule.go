package loader

import "dev.gpustall/engine/trace"

// schedule holds the epochs: which one Next delivers, from which one batches are cut, and when
// the next one may begin. Loader.mu guards it.
type schedule struct {
	sampler Sampler
	stream  *Streamed // the data set, if it is one
	limit   int       // epochs; 0: endless

	// The epochs before opened have an order. Only the last two of them are kept.
	epochs          [2]epoch // by parity
	current, opened int      // current is being delivered
	opening         bool     // someone is shuffling
	start           *Position
	seq             int32 // of the next batch
}

// newSchedule returns the schedule of epochs from a position on; nil means the beginning.
func newSchedule(in *input, epochs int, start *Position) schedule {
	s := schedule{sampler: NewSampler(in.seed, in.info.Samples), limit: epochs}
	s.stream, _ = in.dataset.(*Streamed)
	if g, ok := in.dataset.(Grouped); ok {
		s.sampler = s.sampler.Grouped(g.Grouping())
	}
	if start != nil {
		from := *start
		s.start, s.current, s.opened = &from, from.Epoch, from.Epoch
		s.epochs[(from.Epoch+1)&1].closed = true // the epoch before: nothing is to be cut from it
	}
	return s
}

// of returns the epoch of a batch in flight.
func (s *schedule) of(b *slot) *epoch { return &s.epochs[b.Epoch&1] }

// delivering returns the epoch that Next delivers, or nil while it is not opened.
func (s *schedule) delivering() *epoch {
	if s.opened <= s.current {
		return nil
	}
	return &s.epochs[s.current&1]
}

// dispatching returns the epoch that batches are cut from, or nil before the first.
func (s *schedule) dispatching() *epoch {
	if s.opened == 0 {
		return nil
	}
	return &s.epochs[(s.opened-1)&1]
}

// over reports whether Next has delivered the last epoch.
func (s *schedule) over() bool { return s.limit > 0 && s.current >= s.limit }

// busy reports whether workers have, or will have, batches to cut.
func (s *schedule) busy(k *Knobs) bool {
	e := s.dispatching()
	return s.opening || s.openable(k) || e != nil && !e.closed
}

// openable reports whether the next epoch may be started. That is when Next has reached
// it or, if the workers live on, one epoch earlier.
func (s *schedule) openable(k *Knobs) bool {
	if s.opening || s.limit > 0 && s.opened >= s.limit {
		return false
	}
	if s.opened == s.current {
		return true
	}
	ahead := k.PersistentWorkers && k.NumWorkers > 0
	return ahead && s.opened == s.current+1 && s.epochs[s.current&1].closed
}

// opening is an epoch whose order is being made.
type opening struct {
	epoch   int
	order   []int32 // memory for it, then the order
	shuffle bool
	mixed   int
	from    *Position // where in it an earlier loader left off, or nil
}

// begin starts the next epoch: order and add follow. Its order goes into the memory of an
// epoch whose last batch was delivered.
func (s *schedule) begin(k *Knobs) opening {
	o := opening{epoch: s.opened, order: s.epochs[s.opened&1].order, shuffle: k.Shuffle, mixed: s.mixes(k)}
	if s.start != nil && s.start.Epoch == o.epoch {
		o.from, o.shuffle, o.mixed = s.start, s.start.Shuffle, s.start.Mixed
	}
	if s.stream != nil {
		s.stream.mixing(o.mixed)
	}
	s.opening = true
	return o
}

// order makes the order of an epoch. The caller does not hold Loader.mu, because order takes
// long. It reads only what does not change.
func (s *schedule) order(o *opening) {
	o.order = s.sampler.Mixing(o.mixed).Order(o.order, o.epoch, o.shuffle)
	if o.from != nil && s.stream != nil {
		s.stream.passed(int32(o.epoch), o.from.passed(o.order))
	}
}

// add makes batches be cut from this epoch.
func (s *schedule) add(o opening) {
	s.opening = false
	e := &s.epochs[o.epoch&1]
	*e = epoch{order: o.order, shuffle: o.shuffle, mixed: o.mixed}
	if o.from != nil {
		e.resume(o.from)
		s.start = nil
	}
	s.opened++
}

// mixes returns how many samples an epoch that begins now mixes at a time; 0 where samples
// do not lie in groups.
func (s *schedule) mixes(k *Knobs) int {
	if len(s.sampler.groups.Starts) == 0 {
		return 0
	}
	return k.Mixed()
}

// number gives b its place in the session.
func (s *schedule) number(b *slot, epoch int) {
	b.Seq, b.Epoch, b.Load, b.Work, b.Built, b.Ready, b.Last = s.seq, int32(epoch), 0, trace.Work{}, trace.Built{}, 0, false
	s.seq++
}

// position returns how far Next has come, without the batches in flight. It also returns the
// epoch of those batches, or nil if that epoch has not begun.
func (s *schedule) position(k *Knobs) (Position, *epoch) {
	p := Position{Samples: s.sampler.samples, Epoch: s.current}
	if e := s.delivering(); e != nil && e.done() { // Next moves to the following epoch when it is called
		p.Epoch++
	}
	if s.opened > p.Epoch {
		e := &s.epochs[p.Epoch&1]
		p.Shuffle, p.Mixed, p.Place = e.shuffle, e.mixed, e.pos
		return p, e
	}
	if s.start != nil && s.start.Epoch == p.Epoch {
		return *s.start, nil
	}
	p.Shuffle, p.Mixed = k.Shuffle, s.mixes(k)
	return p, nil
}
