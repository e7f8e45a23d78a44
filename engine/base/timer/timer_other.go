//go:build !linux

package timer

import "time"

// nap uses Go's own timer, which is as late as the system's timers.
func nap(ns int64) { time.Sleep(time.Duration(ns)) }

var start = time.Now()

// CPU returns the time that has passed, in ns, because this system does not tell how much of it the
// thread computed.
func CPU() int64 { return int64(time.Since(start)) }
