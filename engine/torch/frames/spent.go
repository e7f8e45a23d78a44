//go:build linux

package frames

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"dev.gpustall/engine/base/host"
)

// Spent divides the time of a thread among the looks at it: the time on a core or ready for one among the looks
// that find it so, and the rest among those that find it blocked. The kernel counts both. On a crowded host the
// reader itself gets a core when others block, so that it finds them blocked too often.
type Spent struct {
	call, counts *os.File // of the thread in /proc; nil where there is none
	last         time.Time
	active       time.Duration    // the kernel's count at the last look
	left         [2]time.Duration // not given to a look yet: blocked, and active
	buffer       [256]byte
}

// NewSpent returns what counts from now on the time of a thread.
func NewSpent(pid, tid int) *Spent {
	s := &Spent{last: time.Now()}
	folder := fmt.Sprintf("/proc/%d/task/%d/", pid, tid)
	s.call, _ = os.Open(folder + "syscall")
	s.counts, _ = os.Open(folder + "schedstat")
	s.active, _ = s.count()
	return s
}

// Look returns the time that a look gets which just found the thread, and the address of the futex that the
// thread waits on; 0 where it waits on none.
func (s *Spent) Look() (took time.Duration, futex uint64) {
	line := s.read(s.call)
	futex, blocked := host.Blocked(line)
	now := time.Now()
	since := now.Sub(s.last)
	active, counts := s.count()
	ran := active - s.active
	s.last, s.active = now, active
	if line == "" || !counts {
		return since, futex
	}
	s.left[0] += since - ran
	s.left[1] += ran
	kind := 1
	if blocked {
		kind = 0
	}
	took = max(0, s.left[kind])
	s.left[kind] -= took
	return took, futex
}

// read returns what a file of the thread has now; empty where it cannot be read. As of readv, Go's scheduler does not know of it.
func (s *Spent) read(f *os.File) string {
	if f == nil {
		return ""
	}
	n, _, err := unix.RawSyscall6(unix.SYS_PREAD64, f.Fd(), uintptr(unsafe.Pointer(&s.buffer[0])), uintptr(len(s.buffer)), 0, 0, 0)
	runtime.KeepAlive(f)
	if err != 0 {
		return ""
	}
	return string(s.buffer[:n])
}

// count returns how long the thread was on a core, or ready for one.
func (s *Spent) count() (active time.Duration, ok bool) {
	f := strings.Fields(s.read(s.counts))
	if len(f) < 2 {
		return 0, false
	}
	core, err := strconv.ParseInt(f[0], 10, 64)
	queue, e := strconv.ParseInt(f[1], 10, 64)
	return time.Duration(core + queue), err == nil && e == nil && core > 0
}
