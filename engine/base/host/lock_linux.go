package host

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// AwaitsLock reports whether the main thread of a process waits for a lock that processes share:
// one in shared memory, such as a multiprocessing.Lock, or one on a file. It is not known where the
// kernel does not show which system call other processes of the same user are in.
func AwaitsLock(pid int) (waits, known bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
	if err != nil {
		return false, false
	}
	return awaitsLock(string(b)), true
}

// Blocked reports whether a thread is blocked, rather than on a core or ready for one, by what /proc/PID/task/TID/syscall
// has. at is the address of the futex that it waits on: 0 where it waits on none.
func Blocked(line string) (at uint64, blocked bool) {
	return futex(line), !strings.HasPrefix(line, "running")
}

// futex reads a line as awaitsLock does.
func futex(line string) uint64 {
	f := strings.Fields(line)
	if len(f) < 3 || f[0] != strconv.Itoa(unix.SYS_FUTEX) {
		return 0
	}
	at, err := strconv.ParseUint(strings.TrimPrefix(f[1], "0x"), 16, 64)
	if err != nil {
		return 0
	}
	return at
}

// From linux/futex.h: the operations that wait, and the flag of a lock that only one process uses.
const (
	futexCommand   = 127
	futexWait      = 0
	futexLockPI    = 6
	futexWaitSet   = 9
	futexLockPI2   = 13
	futexOfProcess = 128 // other processes cannot wait for it
)

// awaitsLock reads a line of /proc/PID/syscall. That is "running", or the number of the call that
// the process is in with its arguments.
func awaitsLock(line string) bool {
	f := strings.Fields(line)
	if len(f) < 3 {
		return false
	}
	call, err := strconv.Atoi(f[0])
	what, bad := strconv.ParseUint(strings.TrimPrefix(f[2], "0x"), 16, 64)
	if err != nil || bad != nil {
		return false
	}
	switch call {
	case unix.SYS_FLOCK:
		return true
	case unix.SYS_FCNTL:
		return what == unix.F_SETLKW || what == unix.F_OFD_SETLKW
	case unix.SYS_FUTEX:
		switch what & futexCommand {
		case futexWait, futexWaitSet, futexLockPI, futexLockPI2:
			return what&futexOfProcess == 0
		}
	}
	return false
}
