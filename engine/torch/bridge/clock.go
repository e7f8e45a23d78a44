//go:build linux

package bridge

import (
	"time"
	"unsafe"

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

// monotonic returns CLOCK_MONOTONIC. Go's scheduler does not know of the call, which would wake another thread.
func monotonic() int64 {
	var t unix.Timespec
	if _, _, err := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&t)), 0); err != 0 {
		return 0
	}
	return t.Nano()
}
