package loader

import (
	"fmt"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/trace"
)

// queue holds the batches between their dispatch and their delivery. Loader.mu guards
// it.
type queue struct {
	flight list         // all of them, in the order of dispatch
	ready  [2]list      // built or failed, by the epoch's parity, in the order of completion
	redo   list         // to be loaded again
	failed *slot        // Next returned its error last
	track  *trace.Track // of the queue's length; nil without a recorder
	clock  trace.Clock
}

func newQueue(c trace.Clock, t *trace.Track) queue {
	return queue{
		flight: list{which: inFlight}, ready: [2]list{{which: inState}, {which: inState}}, redo: list{which: inState},
		track: t, clock: c,
	}
}

// depth returns the number of ready batches.
func (q *queue) depth() int { return q.ready[0].n + q.ready[1].n }

// add makes a batch ready, whether it was loaded or failed.
func (q *queue) add(s *slot, err error) {
	s.state, s.err, s.Ready = ready, err, q.clock.Now()
	q.ready[s.Epoch&1].push(s)
}

// next removes and returns the ready batch of the epoch whose turn it is, or nil.
func (q *queue) next(epoch int, inOrder bool) *slot {
	s := q.ready[epoch&1].head
	if inOrder {
		s = q.flight.head
	}
	if s == nil || s.state != ready {
		return nil
	}
	q.ready[s.Epoch&1].remove(s)
	return s
}

// fail returns the error of s, which Next has taken from the queue. The batch keeps its place.
func (q *queue) fail(s *slot) error {
	err := s.err
	s.state, s.err, q.failed = redo, nil, s
	return err
}

// retry queues the batch whose error Next returned last for another load, and reports whether
// there is one.
func (q *queue) retry() bool {
	s := q.failed
	if s == nil {
		return false
	}
	q.failed = nil
	q.redo.push(s)
	return true
}

// blocking returns the batch that Next waits for only because of in_order, while others of its
// epoch are ready. It is -1 if there is none.
func (q *queue) blocking(inOrder bool) int32 {
	s := q.flight.head
	if !inOrder || s == nil || s.state == ready || q.ready[s.Epoch&1].n == 0 {
		return -1
	}
	return s.Seq
}

// record records how many batches are ready and which one blocks them. The caller calls it
// whenever either changes, with Loader.mu held, so that the track has one writer at a time.
func (q *queue) record(k *Knobs) {
	if q.track != nil {
		now := q.clock.Now()
		q.track.Record(trace.Span{
			Start: now, End: now, Step: -1, Batch: q.blocking(k.InOrder), Kind: trace.KindQueue,
			Arg: uint32(q.depth()), Flags: uint16(k.InFlight()),
		})
	}
}

// undelivered returns the places, in the order of an epoch, of its batches in flight.
func (q *queue) undelivered(epoch int) (at []At) {
	for s := q.flight.head; s != nil; s = s.links[inFlight].next {
		if int(s.Epoch) == epoch {
			at = append(at, At{s.Pos, s.Pos + len(s.order)})
		}
	}
	return at
}

// at names the sample that the worker of the oldest batch works on, for errors.
func (q *queue) at(name string) string {
	for s := q.flight.head; s != nil; s = s.links[inFlight].next {
		if s.state == loading {
			if i := s.by.index.Load(); i >= 0 {
				return fmt.Sprintf("sample %d of %s", i, errs.Path(name))
			}
		}
	}
	return "no sample"
}
