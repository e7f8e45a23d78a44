package engine

import (
	"sync"
	"sync/atomic"

	"dev.gpustall/engine/trace"
)

// suspension follows the process being stopped as a whole (ctrl+z in a shell).
// Nothing runs then, so nothing can be recorded; the time is charged to the
// pause, not to whatever happened to be under way.
type suspension struct {
	any  atomic.Bool // something to record
	mu   sync.Mutex
	from int64      // start of the one under way; -1 when none
	past [][2]int64 // ended and not yet recorded
}

// Suspend tells that the process is about to be stopped, or that it runs again.
// It may be called from any goroutine.
func (e *Engine) Suspend(on bool) {
	s := &e.suspended
	s.mu.Lock()
	defer s.mu.Unlock()
	now := e.rec.Now()
	switch {
	case on && s.from < 0:
		s.from = now
	case !on && s.from >= 0:
		s.past = append(s.past, [2]int64{s.from, now})
		s.from = -1
	}
	s.any.Store(true)
}

// record writes the suspensions down before a step that they may overlap is
// accounted for.
func (s *suspension) record(t *trace.Track, now int64) {
	if !s.any.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.past {
		t.Record(trace.Span{Start: p[0], End: p[1], Step: -1, Batch: -1, Kind: trace.KindPause})
	}
	s.past = s.past[:0]
	if s.from >= 0 {
		t.Record(trace.Span{Start: s.from, End: now, Step: -1, Batch: -1, Kind: trace.KindPause})
		return
	}
	s.any.Store(false)
}
