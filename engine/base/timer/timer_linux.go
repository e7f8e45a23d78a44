package timer

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// nap sleeps for ns in the kernel. A signal may end it early; Go's own are frequent.
//
// The kernel lets a thread sleep 50 us longer than it asked for, in order to wake several at once.
// A thread can ask for less (prctl(2), PR_SET_TIMERSLACK). That is a setting of the thread, so the
// goroutine stays on its thread meanwhile. The thread keeps the setting, which makes its later
// sleeps more exact too.
func nap(ns int64) {
	var at unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &at) != nil {
		time.Sleep(time.Duration(ns))
		return
	}
	at = unix.NsecToTimespec(at.Nano() + ns)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // where it fails, the sleep is less exact
	if err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &at, nil); err != nil && err != unix.EINTR {
		time.Sleep(time.Duration(ns))
	}
}

// CPU returns how long the calling thread has computed, in ns. To compare two readings, lock the
// goroutine to its thread.
func CPU() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // every Linux has this clock
	return t.Nano()
}
