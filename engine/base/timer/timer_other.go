//go:build !linux

package timer

import "time"

// nap is Go's own timer, which is late by what the system's are.
func nap(ns int64) { time.Sleep(time.Duration(ns)) }

var start = time.Now()

// CPU is the time that has passed, in ns: what the calling thread computed of it is not
// known here.
func CPU() int64 { return int64(time.Since(start)) }
