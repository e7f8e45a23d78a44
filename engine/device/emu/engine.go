package emu

import (
	"slices"
	"time"
)

// engine is a compute or copy engine that streams share. It does one piece of work at a time, as
// soon as the work's stream is ready. Work that waits for its stream does not block other streams,
// as on a card's copy engines.
type engine struct {
	busy []span // sorted, without overlap; past ones are dropped
}

// span is [start, end), in ns on the device's clock.
type span struct{ start, end int64 }

// run puts work of the given duration on the engine, after the tail of a stream, and moves the tail.
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
