package loader

// epoch is one pass over the data set. At most two exist at a time: the one being
// delivered and, with persistent workers, the next one.
type epoch struct {
	order     []int32
	pos       int   // samples cut so far
	index     int32 // batches cut so far
	pending   int   // batches cut and not yet delivered
	delivered int   // batches
	closed    bool  // every batch has been cut

	shuffle bool // how it was ordered ...
	mixed   int  // ... and mixed
	again   []At // cut before the loader was started and not delivered; these go first
	before  bool // some of it was delivered before the loader was started
}

func (e *epoch) left() int { return len(e.order) - e.pos }

// done reports whether every batch has been delivered.
func (e *epoch) done() bool { return e.closed && e.pending == 0 }

// cut takes the next batch of the epoch for s and returns its dataset indices. If drop_last
// drops the rest of the epoch, it does so here, so that delivery knows whether another batch
// follows.
func (e *epoch) cut(s *slot, size int, dropLast bool) []int32 {
	n := e.next(size)
	at := e.pos
	if len(e.again) > 0 {
		at = e.again[0].From
		if e.again[0].From += n; e.again[0].From == e.again[0].To {
			e.again = e.again[1:]
		}
	} else {
		e.pos += n
	}
	s.Index, s.Pos, s.N = e.index, at, n
	e.index++
	e.pending++
	e.finish(size, dropLast)
	return e.order[at : at+n]
}

// next returns how many samples the next batch will have.
func (e *epoch) next(size int) int {
	if len(e.again) > 0 {
		return min(size, e.again[0].To-e.again[0].From)
	}
	return min(size, e.left())
}

// full reports whether the next batch will be as large as batches get.
func (e *epoch) full(size int) bool {
	size = min(size, len(e.order))
	return e.next(size) >= size
}

// deliver counts a batch that Next returns.
func (e *epoch) deliver(s *slot) {
	e.pending--
	e.delivered++
	s.Last = e.done()
}

// finish closes the epoch when nothing of it is left to be cut.
func (e *epoch) finish(size int, dropLast bool) {
	e.closed = len(e.again) == 0 && (e.left() == 0 || dropLast && e.left() < size)
}
