package train

import "dev.gpustall/engine/trace"

// transition follows a knob change until the ready queue is back at its level before the
// change. A queue that is always empty counts as refilled after as many batches as were
// in flight and as the new limit allows. If more were in flight than the new limit
// allows, these batches of the old settings are delivered first.
type transition struct {
	active    bool
	from      int64 // start of the part not yet recorded, in ns
	ready     int   // level to reach
	remaining int   // batches to deliver at the most
	least     int   // batches to deliver at the least
	count     int   // batches delivered
}

// begin starts a transition at the time start. The queue held ready batches. flight
// batches were started and not yet delivered, and limit is how many may be from now on.
func (t *transition) begin(start int64, ready, flight, limit int) {
	*t = transition{active: true, from: start, ready: ready, remaining: flight + max(1, limit), least: max(1, flight-limit)}
}

// flag returns the flag of steps in a transition.
func (t *transition) flag() uint16 {
	if t.active {
		return trace.FlagTransition
	}
	return 0
}

// delivered counts a batch.
func (t *transition) delivered() {
	if t.active {
		t.count++
		t.remaining--
	}
}

// refilled reports whether the transition is over, with ready batches in the queue.
func (t *transition) refilled(ready int) bool {
	return t.active && t.count >= t.least && (t.remaining <= 0 || ready >= max(1, t.ready))
}

// record records the transition so far, before a step that it may overlap.
func (t *transition) record(track *trace.Track, now int64) {
	if t.active {
		track.Record(trace.Span{Start: t.from, End: now, Step: -1, Batch: -1, Kind: trace.KindTransition})
		t.from = now
	}
}
