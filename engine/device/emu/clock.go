package emu

import (
	"time"

	"dev.gpustall/engine/base/timer"
)

// Clock is the host's time, in ns. The device's timelines are laid out on it.
type Clock interface {
	Now() int64
	Sleep(until int64) // blocks the caller until Now is at least until
}

// On returns a clock of real time that reads c.
func On(c timer.Clock) Clock { return real{c} }

type real struct{ timer.Clock }

func (r real) Sleep(until int64) { timer.Until(r.Clock, until) }

// NewRealClock returns a clock of real time that starts at 0.
func NewRealClock() Clock { return real{monotonic{time.Now()}} }

// monotonic is the monotonic clock from its start.
type monotonic struct{ start time.Time }

func (m monotonic) Now() int64 { return int64(time.Since(m.start)) }
