package timer

import (
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

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

// Alarm wakes one goroutine, as the kernel's timers do files' readers. For each of Go's own timers the runtime wakes up to
// three threads, which takes more of a core than what is done then, where that is little.
type Alarm struct {
	file *os.File
	conn syscall.RawConn
}

// NewAlarm returns an alarm that the caller closes.
func NewAlarm() (*Alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "timer")
	conn, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &Alarm{file, conn}, nil
}

// Wait returns after d, or with os.ErrClosed once the alarm is closed. One goroutine may wait.
func (a *Alarm) Wait(d time.Duration) error {
	var at unix.ItimerSpec
	at.Value = unix.NsecToTimespec(max(1, d.Nanoseconds()))
	var expired [8]byte
	var failed syscall.Errno
	set := false
	err := a.conn.Read(func(fd uintptr) bool { // the runtime calls it again when the file can be read
		if !set {
			_, _, failed = unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(&at)), 0, 0, 0)
			set = true
			return failed != 0
		}
		n, _, _ := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&expired[0])), uintptr(len(expired)))
		return int(n) == len(expired)
	})
	switch {
	case err != nil:
		return os.ErrClosed
	case failed != 0:
		return failed
	}
	return nil
}

// Close ends Wait.
func (a *Alarm) Close() { _ = a.file.Close() }
