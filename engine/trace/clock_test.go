package trace

import (
	"sync"
	"testing"
	"time"
)

// TestClockAgrees holds the clock against the operating system's: it never goes
// back, on any thread, and keeps its pace.
func TestClockAgrees(t *testing.T) {
	c := NewClock()
	from, start := c.Now(), time.Now()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			last := c.Now()
			for range 200_000 {
				now := c.Now()
				if now < last {
					t.Errorf("the clock went back by %d ns", last-now)
					return
				}
				last = now
			}
		})
	}
	wg.Wait()
	before := time.Since(start)
	got := time.Duration(c.Now() - from)
	after := time.Since(start)
	slack := after/1000 + 100*time.Microsecond
	if got < before-slack || got > after+slack {
		t.Errorf("the clock counted %v while %v to %v passed", got, before, after)
	}
}

func BenchmarkClock(b *testing.B) {
	c := NewClock()
	for b.Loop() {
		c.Now()
	}
}
