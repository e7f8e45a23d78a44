//go:build linux

package bridge

import "dev.gpustall/engine/trace"

// numbers are what batches are called in a session: one number each, and those of a passage through
// a loader in the order of its sampler, counted on from the passage before. A batch may come to its
// number before those ahead of it: their workers may begin with them later, or be read later.
type numbers struct {
	free  int32 // the first that is no batch's, nor any after it
	of    *pass // which had the last one
	first int32 // that it may have,
	base  int32 // and that of its batch 0
}

// take is the number of a batch that has none so far.
func (n *numbers) take(s *pass, id batchID) int32 {
	if id.round < s.round || id.index < 0 { // of an epoch that is over
		n.free++
		n.first = n.free
		return n.free - 1
	}
	if id.round > s.round {
		s.round, s.next, n.of = id.round, 0, nil
	}
	if s.next == 0 && id.index >= trace.MaxWorkers { // no worker's first: those before it were long ago
		s.next = id.index
	}
	if n.of != s || n.base+id.index < n.first {
		n.of, n.first, n.base = s, n.free, n.free-min(s.next, id.index)
	}
	seq := n.base + id.index
	s.next, n.free = max(s.next, id.index+1), max(n.free, seq+1)
	return seq
}
