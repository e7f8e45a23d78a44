package train

import (
	"sync"
	"sync/atomic"

	"dev.gpustall/engine/trace"
)

// suspension notes when the whole process was stopped (ctrl+z in a shell). Nothing runs
// then, so nothing is recorded. The time is charged to the cause "paused".
type suspension struct {
	any  atomic.Bool // there is something to record
	mu   sync.Mutex
	from int64      // start of the one under way; -1 when none
	past [][2]int64 // ended and not yet recorded
}

// set notes that the process is about to be stopped, or that it runs again. Any
// goroutine may call it.
func (s *suspension) set(on bool, c trace.Clock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := c.Now()
	switch {
	case on && s.from < 0:
		s.from = now
	case !on && s.from >= 0:
		s.past = append(s.past, [2]int64{s.from, now})
		s.from = -1
	}
	s.any.Store(true)
}

// record records the suspensions. The caller calls it before it records each step,
// because a step may overlap them.
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
