package emu

import "time"

// Clock is the host's time, in ns. The device's timelines are laid out on it.
type Clock interface {
	Now() int64
	Sleep(until int64) // blocks the caller until Now is at least until
}

// RealClock is the monotonic clock, from its creation.
type RealClock struct{ start time.Time }

// NewRealClock returns a clock that starts at 0.
func NewRealClock() *RealClock { return &RealClock{time.Now()} }

// Now returns the ns since the clock's creation.
func (c *RealClock) Now() int64 { return int64(time.Since(c.start)) }

// Sleep sleeps until Now is at least until.
func (c *RealClock) Sleep(until int64) {
	for d := until - c.Now(); d > 0; d = until - c.Now() {
		time.Sleep(time.Duration(d))
	}
}
