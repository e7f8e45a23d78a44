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
	outer := time.Now() // brackets, so that losing the processor between readings does not count
	from := c.Now()
	inner := time.Now()
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
	least := time.Since(inner)
	got := time.Duration(c.Now() - from)
	most := time.Since(outer)
	slack := most/1000 + 100*time.Microsecond
	if got < least-slack || got > most+slack {
		t.Errorf("the clock counted %v while %v to %v passed", got, least, most)
	}
}

func BenchmarkClock(b *testing.B) {
	c := NewClock()
	for b.Loop() {
		c.Now()
	}
}
