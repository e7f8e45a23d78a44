package host

import (
	"bytes"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"dev.gpustall/engine/timer"
)

// Threads holds the files that tell how long threads of this process waited for a core,
// one a thread, which stay open: opening one costs ten times as much as reading it.
type Threads struct {
	mu     sync.Mutex
	files  map[int]int // by thread id
	stale  []int       // of threads that ended; a meter may still know them
	closed bool
}

// OpenThreads returns nil where the machine does not count what threads wait for, and
// why not.
func OpenThreads() (*Threads, Reading) {
	t := &Threads{files: map[int]int{}}
	m := t.Meter()
	if _, ok := m.Waited(); !ok {
		t.Close()
		return nil, missing("proc/self/task/*/schedstat")
	}
	// A kernel that counts nothing writes zeros, also for how often the thread ran.
	if f := bytes.Fields(m.buf[:m.n]); len(f) < 3 || decimal(f[2]) == 0 {
		t.Close()
		return nil, unknown("/proc/self/task/*/schedstat counts nothing")
	}
	return t, known(0)
}

// Close closes the files. No meter may be read after it.
func (t *Threads) Close() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, fd := range t.files {
		_ = unix.Close(fd)
	}
	for _, fd := range t.stale {
		_ = unix.Close(fd)
	}
	t.files, t.stale = nil, nil
}

// file is the open file of the calling thread; stale says that the one there is belongs
// to an earlier thread of the same id.
func (t *Threads) file(tid int, stale bool) (fd int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return -1, false
	}
	if fd, ok = t.files[tid]; ok && !stale {
		return fd, true
	}
	if ok {
		t.stale = append(t.stale, fd)
		delete(t.files, tid)
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/task/%d/schedstat", tid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, false
	}
	t.files[tid] = fd
	return fd, true
}

// Meter returns a meter for one goroutine; nil where t is.
func (t *Threads) Meter() *Meter {
	if t == nil {
		return nil
	}
	return &Meter{threads: t, tid: -1}
}

// Meter reads the times of the thread that calls it. A goroutine that takes a
// difference of two readings is locked to its thread from the first to the second.
type Meter struct {
	threads *Threads
	tid, fd int
	n       int
	buf     [64]byte
}

// Waited is how long the calling thread has been ready to run without a core, in ns.
// It is false where that is not known. It does not allocate, but for the first reading
// of a thread.
func (m *Meter) Waited() (ns int64, ok bool) {
	if tid := unix.Gettid(); tid != m.tid {
		if m.fd, ok = m.threads.file(tid, false); !ok {
			return 0, false
		}
		m.tid = tid
	}
	n, err := unix.Pread(m.fd, m.buf[:], 0)
	if err != nil { // the thread that it belonged to has ended, and this one took its id
		if m.fd, ok = m.threads.file(m.tid, true); !ok {
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

// CPU is how long the calling thread has been on a core, in ns. The file says so too,
// but as of the last time that the kernel looked.
func (m *Meter) CPU() int64 { return timer.CPU() }
