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

// Spent divides the time of a thread among the looks at it. A look gets the time since the look before, by a factor: the time
// that the thread really was blocked, by the time in which looks found it blocked; likewise if it was on a core, or ready for one.
// The kernel counts that. On a crowded host the reader itself gets a core when others block, so that it finds them
// blocked too often.
type Spent struct {
	call, counts *os.File // of the thread in /proc; nil where there is none
	last         time.Time
	active       time.Duration    // the kernel's count at the last look
	real, found  [2]time.Duration // blocked, and active
	buffer       [256]byte
}

// How much time the factors begin with, which keeps them near 1 at first, and after how much they count half of it.
const (
	settles = time.Second
	forgets = time.Minute
)

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
	if s.found[0]+s.found[1] > forgets {
		for i := range s.found {
			s.found[i], s.real[i] = s.found[i]/2, s.real[i]/2
		}
	}
	kind := 1
	if blocked {
		kind = 0
	}
	s.real[0] += since - ran
	s.real[1] += ran
	s.found[kind] += since
	return time.Duration(float64(since) * float64(max(0, s.real[kind])+settles) / float64(s.found[kind]+settles)), futex
}

// Runs returns how often a thread has got a core; 0 where that is not known.
func Runs(pid, tid int) (n int64) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/schedstat", pid, tid))
	if f := strings.Fields(string(b)); len(f) > 2 {
		n, _ = strconv.ParseInt(f[2], 10, 64)
	}
	return n
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
