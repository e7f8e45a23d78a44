package emu

import (
	"sync/atomic"
	"time"
)

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

// VirtualClock stands still until someone sleeps or advances it, so that a run
// on it is repeatable to the ns and takes no time.
type VirtualClock struct{ now atomic.Int64 }

// Now returns the virtual ns.
func (c *VirtualClock) Now() int64 { return c.now.Load() }

// Sleep moves the clock to until, unless it is past that.
func (c *VirtualClock) Sleep(until int64) {
	for {
		now := c.now.Load()
		if now >= until || c.now.CompareAndSwap(now, until) {
			return
		}
	}
}

// Advance moves the clock on by d: host work that takes that long.
func (c *VirtualClock) Advance(d time.Duration) { c.now.Add(int64(d)) }
