package host

import (
	"bytes"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"dev.gpustall/engine/base/timer"
)

// waits are the files that tell how long threads of this process waited for a core, one for each
// thread. They stay open as long as the process lives: opening one costs ten times as much as
// reading it, and Go hardly ever ends a thread.
var waits struct {
	mu    sync.Mutex
	files map[int]int // by thread id
}

// waitFile returns the open file of the calling thread. stale says that the file in waits is of an
// earlier thread of the same id. That file stays open too, because meters may know it by its
// number.
func waitFile(tid int, stale bool) (fd int, ok bool) {
	waits.mu.Lock()
	defer waits.mu.Unlock()
	if fd, ok = waits.files[tid]; ok && !stale {
		return fd, true
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/task/%d/schedstat", tid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, false
	}
	if waits.files == nil {
		waits.files = map[int]int{}
	}
	waits.files[tid] = fd
	return fd, true
}

// Meter reads the times of the thread that calls it. Only one goroutine may use it. To take the
// difference of two readings, the goroutine must be locked to its thread from the first to the
// second.
type Meter struct {
	tid, fd int
	n       int
	buf     [64]byte
}

// NewMeter returns a meter. Where the machine does not count what threads wait for, it returns nil
// and the reason.
func NewMeter() (*Meter, Reading) {
	if c := counted(); !c.Known {
		return nil, c
	}
	return &Meter{tid: -1}, known(0)
}

// counted is a known reading where the kernel counts what threads wait for.
var counted = sync.OnceValue(func() Reading {
	m := Meter{tid: -1}
	if _, ok := m.Waited(); !ok {
		return missing("proc/self/task/*/schedstat")
	}
	// A kernel that counts nothing writes zeros, even for how often the thread ran.
	if f := bytes.Fields(m.buf[:m.n]); len(f) < 3 || decimal(f[2]) == 0 {
		return unknown("/proc/self/task/*/schedstat counts nothing")
	}
	return known(0)
})

// Waited returns how long the calling thread was ready to run without a core, in ns; false where
// that is not known. Only the first reading of a thread allocates.
func (m *Meter) Waited() (ns int64, ok bool) {
	if tid := unix.Gettid(); tid != m.tid {
		if m.fd, ok = waitFile(tid, false); !ok {
			return 0, false
		}
		m.tid = tid
	}
	n, err := unix.Pread(m.fd, m.buf[:], 0)
	if err != nil { // the file is of a thread that has ended, whose id this thread took
		if m.fd, ok = waitFile(m.tid, true); !ok {
			m.tid = -1
			return 0, false
		}
		if n, err = unix.Pread(m.fd, m.buf[:], 0); err != nil {
			return 0, false
		}
	}
	m.n = n
	_, rest, ok := bytes.Cut(m.buf[:n], []byte{' '}) // running waiting slices
	return decimal(rest), ok
}

// CPU returns how long the calling thread was on a core, in ns. The file tells it too, but only
// as of the kernel's last look.
func (m *Meter) CPU() int64 { return timer.CPU() }
