// Package timer ends waits on time. Go's own timers are up to a millisecond late on
// Linux where nothing else runs, because the runtime then waits in epoll, whose
// timeout is in whole milliseconds; here a thread sleeps in the kernel until the
// moment itself, which takes it some microseconds.
package timer

import (
	"runtime"
	"sync/atomic"
	"time"
)

// began is a moment that all of the process count from.
var began = time.Now()

// Left is the time until the next moment of those that are so far apart. Timers that end
// at such moments end together, and wake the process once.
func Left(every time.Duration) time.Duration { return every - time.Since(began)%every }

// Spent is for how long f was on a core, as far as that is known (CPU). What is paid for by
// it costs the same on a busy machine as on an idle one.
func Spent(f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := CPU()
	f()
	return time.Duration(CPU() - began)
}

// Clock tells the time in ns.
type Clock interface{ Now() int64 }

// Coarse is how long before its moment a wait leaves Go's timers, in ns: more than they
// are late by. Until then a wait costs no thread; who wants to be able to end it early
// does that until then.
const Coarse = 2_000_000

// Nap returns when c shows t or a little more; it never computes while it waits.
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
	maxLead = 30_000 // ns; bounds what a wait may cost of a core
	minLead = 1_000
)

// lead is how long before its moment Until wakes up, in ns: what naps end late by in
// nine of ten cases.
var lead atomic.Int64

// Until returns as soon as c shows t: it naps until shortly before and watches the
// clock for the rest.
func Until(c Clock, t int64) {
	early := max(lead.Load(), minLead)
	if t-c.Now() > early {
		Nap(c, t-early)
		learn(c.Now() - (t - early))
	}
	for c.Now() < t { // maxLead at the most: less than it takes to hand the processor over
	}
}

// learn moves lead to where one nap in ten ends later. Two waits at a time may lose
// a step of it, which the next makes up for.
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
