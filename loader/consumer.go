package loader

import (
	"context"
	"errors"
	"sync"
	"time"
)

// consumer is the goroutine that is in Next, if there is one, and how it waits. Loader.mu
// guards it.
type consumer struct {
	mu      *sync.Mutex // Loader.mu
	inside  bool
	awaited bool // Close waits for Next to return
	waiting bool
	signal  chan struct{}
	timer   *time.Timer
	left    sync.Cond // Next has returned
}

func newConsumer(mu *sync.Mutex) consumer {
	return consumer{mu: mu, signal: make(chan struct{}, 1), timer: stoppedTimer(), left: sync.Cond{L: mu}}
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// enter refuses a second goroutine.
func (c *consumer) enter() error {
	if c.inside {
		return errors.New("loader: next: another goroutine is in Next; call it from one at a time")
	}
	c.inside = true
	return nil
}

// leave ends Next.
func (c *consumer) leave() {
	c.inside = false
	if c.awaited {
		c.left.Broadcast()
	}
}

// await waits until no goroutine is in Next.
func (c *consumer) await() {
	c.awaited = true
	for c.inside {
		c.left.Wait()
	}
}

// wake wakes Next, if it waits.
func (c *consumer) wake() {
	if c.waiting {
		select {
		case c.signal <- struct{}{}:
		default:
		}
	}
}

// wait blocks until Next is woken, ctx ends or so much time has passed; 0 sets no limit. It
// releases Loader.mu meanwhile.
func (c *consumer) wait(ctx context.Context, limit time.Duration) {
	var timeout <-chan time.Time
	if limit > 0 {
		c.timer.Reset(limit)
		timeout = c.timer.C
	}
	c.waiting = true
	c.mu.Unlock()
	select {
	case <-c.signal:
	case <-timeout:
	case <-ctx.Done():
	}
	c.mu.Lock()
	c.waiting = false
	c.timer.Stop()
}
