package train

import (
	"context"
	"sync"
	"sync/atomic"

	"dev.gpustall/engine/trace"
)

// Pause stops the step loop at its next boundary, or lets it go on.
func (e *Engine) Pause(on bool) {
	e.paused.Store(on)
	e.nudge()
}

// Paused reports whether a pause is asked for.
func (e *Engine) Paused() bool { return e.paused.Load() }

func (e *Engine) pause(ctx context.Context) error {
	if err := e.finish(); err != nil {
		return err
	}
	start := e.rec.Now()
	e.rec.Note("info", "paused")
	for e.paused.Load() {
		select {
		case <-ctx.Done():
			e.span(trace.KindPause, start, -1, 0)
			return ctx.Err()
		case <-e.wake:
		}
	}
	e.span(trace.KindPause, start, -1, 0)
	e.rec.Note("info", "resumed")
	return nil
}

// suspension notes when the process as a whole was stopped (ctrl+z in a shell).
// Nothing runs then, so nothing can be recorded; the time is charged to the
// cause "paused", not to whatever happened to be under way.
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

// record writes the suspensions down; it is called before each step is recorded,
// which they may overlap.
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
