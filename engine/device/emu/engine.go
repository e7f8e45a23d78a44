package emu

import (
	"slices"
	"time"
)

// engine is what streams share: it does one piece of work at a time, each as soon
// as its stream is ready for it. So work that waits for its stream leaves the time
// until then to the others, as a card's copy engines do.
type engine struct {
	busy []span // sorted, apart; those that are over are forgotten
}

// span is [start, end), in ns on the device's clock.
type span struct{ start, end int64 }

// run lays work of the given duration on the engine behind tail, a stream's, which
// it moves.
func (e *engine) run(now int64, tail *int64, work time.Duration) {
	e.forget(now)
	start, at := max(now, *tail), 0
	for ; at < len(e.busy); at++ {
		if start+int64(work) <= e.busy[at].start {
			break // it fits before this one
		}
		start = max(start, e.busy[at].end)
	}
	*tail = start + int64(work)
	if work > 0 {
		e.busy = slices.Insert(e.busy, at, span{start, *tail})
	}
}

func (e *engine) forget(now int64) {
	over := 0
	for over < len(e.busy) && e.busy[over].end <= now {
		over++
	}
	e.busy = slices.Delete(e.busy, 0, over)
}
