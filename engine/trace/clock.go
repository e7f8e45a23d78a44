package trace

import "time"

// RealClock is the monotonic clock of this machine.
type RealClock struct {
	origin time.Time
	ticks  *ticks
}

// NewClock returns a clock whose zero is now.
func NewClock() *RealClock {
	t := newTicks()
	return &RealClock{time.Now(), t}
}

// Now returns nanoseconds since the clock was made.
func (c *RealClock) Now() int64 {
	if ns, ok := c.ticks.ns(); ok {
		return ns
	}
	return int64(time.Since(c.origin))
}

// Origin returns the wall-clock time of nanosecond 0, for Meta.Started.
func (c *RealClock) Origin() time.Time { return c.origin }
