//go:build linux

package bridge

import "dev.gpustall/engine/trace"

// passes are the passages of a process's loop through its loaders, with the batches under way.
type passes struct {
	byID    map[uint32]*pass
	numbers numbers
}

// pass is one passage of the loop through a loader.
type pass struct {
	batches map[batchID]*batch // batches that are loaded or being loaded, and not delivered yet
	round   uint32             // the epoch under way, of an iterator that goes through several
	next    int32              // the first index in that round without a number
	last    *batch             // the batch delivered last; if the loop then learns with it, it is delivered again, for a step
	lastID  batchID
}

// batchID names a batch within its pass, as its worker does.
type batchID struct {
	round uint32
	index int32
}

// batch is one batch on its way from a worker to the loop.
type batch struct {
	seq   int32 // its number in the session
	lane  trace.TrackID
	done  int64 // ns: when the loop could have it; 0 until then
	made        // where and when a worker made it
	work  trace.Work
	sent  trace.Split            // the split of the time to hand it over
	spent [trace.NumPhases]int64 // ns by phase
	timed bool                   // reading, decoding or transforms of its samples were timed
	slow  trace.Piece            // its slowest sample
}

// made says where and when a worker made a batch.
type made struct {
	pid              int   // the worker's; 0 where it is not known
	begun, collating int64 // ns: when it began, and when it began to collate; 0 where it is not known
	starts           int64 // ns: when the worker itself began, of its first batch; else 0
}

// load returns the worker's time that the batch has taken so far, in ns.
func (b *batch) load() (ns int64) {
	for _, spent := range b.spent {
		ns += spent
	}
	return ns
}

// longest returns the phase other than collation that took longest.
func (b *batch) longest() trace.Kind {
	longest := trace.KindFetch
	for k := trace.KindRead; k.IsPhase(); k++ {
		if b.spent[k-trace.KindRead] > b.spent[longest-trace.KindRead] && k != trace.KindCollate {
			longest = k
		}
	}
	return longest
}

// mostPasses is how many passes are kept. The loop has left older ones, with batches that
// nobody took.
const mostPasses = 64

// pass returns the pass of an iterator, and begins it where it is new.
func (p *passes) pass(id uint32) *pass {
	s := p.byID[id]
	if s == nil {
		s = &pass{batches: map[batchID]*batch{}}
		p.byID[id] = s
		for old := range p.byID {
			if len(p.byID) > mostPasses && old+mostPasses < id {
				delete(p.byID, old)
			}
		}
	}
	return s
}

// batch returns the batch that a record is about, and numbers it where it is new.
func (p *passes) batch(rec *record) *batch { return p.find(p.pass(rec.Iteration), rec.batchID()) }

func (p *passes) find(s *pass, id batchID) *batch {
	b := s.batches[id]
	if b == nil {
		b = &batch{seq: p.numbers.take(s, id), lane: trace.TrackStep}
		s.batches[id] = b
	}
	return b
}

// known returns the batch that a record of the loop delivers, and its pass; nil where no record told
// how the batch was made. The batch delivered last may be delivered once more.
func (p *passes) known(rec *record) (*pass, *batch) {
	s, id := p.pass(rec.Iteration), rec.batchID()
	b := s.batches[id]
	if b == nil && s.last != nil && s.lastID == id {
		b = s.last
	}
	return s, b
}

// deliver takes the batch that a record of the loop delivers out of its pass. It reports whether any
// record told how the batch was made.
func (p *passes) deliver(rec *record) (s *pass, b *batch, seen bool) {
	s, b = p.known(rec)
	id := rec.batchID()
	if seen = b != nil; !seen {
		b = p.find(s, id)
	}
	s.last, s.lastID = b, id
	delete(s.batches, id)
	return s, b, seen
}

// numbers gives each batch its number in the session. Batches of one pass are numbered in the order
// of their sampler, after those of the pass before. A batch may get its number before earlier ones
// of its pass, whose workers may begin later or whose rings may be read later.
type numbers struct {
	free  int32 // no batch has this number or a higher one
	of    *pass // the pass that got a number last
	first int32 // the lowest number that this pass may use
	base  int32 // the number of its batch 0
}

// take returns the number of a batch that has none yet.
func (n *numbers) take(s *pass, id batchID) int32 {
	if id.round < s.round || id.index < 0 { // the batch is of an epoch that is over
		n.free++
		n.first = n.free
		return n.free - 1
	}
	if id.round > s.round {
		s.round, s.next, n.of = id.round, 0, nil
	}
	if s.next == 0 && id.index >= trace.MaxWorkers { // no worker begins with this index, so earlier batches came long ago
		s.next = id.index
	}
	if n.of != s || n.base+id.index < n.first {
		n.of, n.first, n.base = s, n.free, n.free-min(s.next, id.index)
	}
	seq := n.base + id.index
	s.next, n.free = max(s.next, id.index+1), max(n.free, seq+1)
	return seq
}
