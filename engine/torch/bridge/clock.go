//go:build linux

package bridge

import (
	"time"

	"golang.org/x/sys/unix"
)

// Clock counts CLOCK_MONOTONIC from the moment when it was made. Python's time.monotonic_ns reads the
// same clock.
type Clock struct {
	origin int64
	wall   time.Time
}

func newClock() *Clock { return &Clock{monotonic(), time.Now()} }

// Now returns ns since the clock was made.
func (c *Clock) Now() int64 { return monotonic() - c.origin }

// Origin returns the wall-clock time of nanosecond 0.
func (c *Clock) Origin() time.Time { return c.wall }

func monotonic() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return t.Nano()
}
