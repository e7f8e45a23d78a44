// Package timer ends waits on time. Go's own timers are up to a millisecond late on Linux where
// nothing else runs, because the runtime then waits in epoll, whose timeout is in whole
// milliseconds. Here a thread sleeps in the kernel until the moment itself, which is late by some
// microseconds.
package timer

import (
	"runtime"
	"sync/atomic"
	"time"
)

// began is the moment from which the whole process counts.
var began = time.Now()

// Left returns the time until the next of some moments that are every apart. Timers that end at
// such moments end together, and wake the process once.
func Left(every time.Duration) time.Duration { return every - time.Since(began)%every }

// Repeat calls f once a period, until quit is closed or f returns false. Everything with one period is
// called at the same moments, which wakes the process once.
func Repeat(quit <-chan struct{}, period time.Duration, f func() bool) {
	due := time.NewTimer(Left(period))
	defer due.Stop()
	for {
		select {
		case <-quit:
			return
		case <-due.C:
		}
		due.Reset(Left(period))
		if !f() {
			return
		}
	}
}

// Spent returns how long f was on a core, as far as that is known (CPU). So its cost is the same
// on a busy machine as on an idle one.
func Spent(f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := CPU()
	f()
	return time.Duration(CPU() - began)
}

// Clock tells the time in ns.
type Clock interface{ Now() int64 }

// Coarse is how long before its end a wait leaves Go's timers, in ns: it is longer than they are
// late. Until then a wait costs no thread, and can be ended early.
const Coarse = 2_000_000

// Nap returns when c shows t or a little more. It never computes while it waits.
func Nap(c Clock, t int64) {
	for left := t - c.Now(); left > 0; left = t - c.Now() {
		if left > Coarse {
			time.Sleep(time.Duration(left - Coarse))
			continue
		}
		nap(left)
	}
}

const (
	maxLead = 30_000 // ns; limits the core time that a wait costs
	minLead = 1_000
)

// lead is how long before its moment Until wakes up, in ns. Nine of ten naps end less late than
// that.
var lead atomic.Int64

// Until returns as soon as c shows t. It naps until shortly before, and then watches the clock.
func Until(c Clock, t int64) {
	early := max(lead.Load(), minLead)
	if t-c.Now() > early {
		Nap(c, t-early)
		learn(c.Now() - (t - early))
	}
	for c.Now() < t { // maxLead at most, which is less than handing the processor over takes
	}
}

// learn moves lead to the lateness that one nap in ten exceeds. Two waits at the same time may lose
// a step of it, which the next one makes up for.
func learn(late int64) {
	const step = 100 // ns
	l := lead.Load()
	if late > l {
		l += 9 * step
	} else {
		l -= step
	}
	lead.Store(min(max(l, minLead), maxLead))
}
