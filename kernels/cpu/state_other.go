//go:build !linux || !cgo

package cpu

import (
	"sync"
	"sync/atomic"
)

// state is what a helper does. The helper or its caller can sleep until it changes.
type state struct {
	atomic.Int32
	mu   sync.Mutex
	cond *sync.Cond // made at the first sleep
}

// sleepWhile sleeps while the state has a value. It may return early.
func (s *state) sleepWhile(value int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cond == nil {
		s.cond = sync.NewCond(&s.mu)
	}
	for s.Load() == value {
		s.cond.Wait()
	}
}

// wake wakes the goroutine that sleeps, if one does.
func (s *state) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cond != nil {
		s.cond.Broadcast()
	}
}
