package timer

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// nap sleeps for ns in the kernel. A signal may end it early: Go's own are frequent.
//
// The kernel lets a thread sleep 50 us longer than it asked for, to wake several at
// once, unless the thread says that it wants less (prctl(2), PR_SET_TIMERSLACK). That
// is a thread's own setting, so the goroutine stays on its thread for the moment; the
// thread keeps it, which makes its later sleeps better, too.
func nap(ns int64) {
	var at unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &at) != nil {
		time.Sleep(time.Duration(ns))
		return
	}
	at = unix.NsecToTimespec(at.Nano() + ns)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // else it is less exact
	if err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &at, nil); err != nil && err != unix.EINTR {
		time.Sleep(time.Duration(ns))
	}
}

// CPU is how long the calling thread has computed, in ns. Who compares two readings
// has the goroutine locked to its thread.
func CPU() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // every Linux has it
	return t.Nano()
}
