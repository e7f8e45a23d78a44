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
	counted      time.Time        // when the kernel's count was last read
	active       time.Duration    // what it was
	real, found  [2]time.Duration // blocked, and active, until then
	since        [2]time.Duration // found since then
	buffer       [256]byte
}

// How much time the factors begin with, which keeps them near 1 at first, and after how much they count half of it.
const (
	settles  = time.Second
	forgets  = time.Minute
	compares = time.Second // how often the kernel's count is read
)

// NewSpent returns what counts from now on the time of a thread.
func NewSpent(pid, tid int) *Spent {
	now := time.Now()
	s := &Spent{last: now, counted: now}
	folder := fmt.Sprintf("/proc/%d/task/%d/", pid, tid)
	s.call, _ = os.Open(folder + "syscall")
	s.counts, _ = os.Open(folder + "schedstat")
	s.active, _ = s.count()
	return s
}

// Since has the first look get the time since the thread began.
func (s *Spent) Since(began time.Time) { s.last = began }

// Look returns the time that a look gets which just found the thread, and the address of the futex that the
// thread waits on; 0 where it waits on none.
func (s *Spent) Look() (took time.Duration, futex uint64) {
	line := s.read(s.call)
	futex, blocked := host.Blocked(line)
	now := time.Now()
	took = now.Sub(s.last)
	s.last = now
	if line == "" || s.counts == nil {
		return took, futex
	}
	kind := 1
	if blocked {
		kind = 0
	}
	s.since[kind] += took
	if passed := now.Sub(s.counted); passed >= compares {
		s.compare(now, passed)
	}
	return time.Duration(float64(took) * float64(max(0, s.real[kind])+settles) / float64(s.found[kind]+settles)), futex
}

// compare takes the kernel's count, and what looks found in the time that passed since the last one.
func (s *Spent) compare(now time.Time, passed time.Duration) {
	active, ok := s.count()
	if !ok {
		return
	}
	if s.found[0]+s.found[1] > forgets {
		for i := range s.found {
			s.found[i], s.real[i] = s.found[i]/2, s.real[i]/2
		}
	}
	ran := active - s.active
	s.real[0] += passed - ran
	s.real[1] += ran
	for i, found := range s.since {
		s.found[i] += found
	}
	s.since, s.counted, s.active = [2]time.Duration{}, now, active
}

// Active returns how long a thread has been on a core or ready for one, and how often it has got one; 0 where that is not known.
func Active(pid, tid int) (active time.Duration, runs int64) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/schedstat", pid, tid))
	var core, queue int64
	_, _ = fmt.Sscan(string(b), &core, &queue, &runs)
	return time.Duration(core + queue), runs
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
