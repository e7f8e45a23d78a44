//go:build linux

package bridge

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"dev.gpustall/engine/trace"
)

// End says that the process of a rank of this machine has ended.
type End struct {
	Rank, PID int
	At        time.Time
	How       string // as trace.Peer has it

	seat seat
}

// seat is the place of a process under its launcher. After an elastic restart, another process has it, and its rank may differ.
type seat struct{ launcher, local int }

// seatOf returns the seat of a process that runs; zero where it has none of its own.
func seatOf(h *Hello) seat {
	if h.Local < 0 {
		return seat{}
	}
	const parent = 1
	fields := statOf(h.PID)
	if len(fields) <= parent {
		return seat{}
	}
	launcher, _ := strconv.Atoi(string(fields[parent]))
	return seat{launcher, h.Local}
}

// ends waits for the ends of ranks' processes, with a goroutine for each, which close stops and waits for.
type ends struct {
	mu     sync.Mutex
	of     []*End // of the newest process of each rank and seat; At is zero until that ends
	files  []*os.File
	waits  sync.WaitGroup // for the goroutines
	wake   func()         // called after each end
	closed bool
}

// follow waits for the end of the process that has a rank now. It is called now and then.
func (e *ends) follow(rank, pid int, at seat) {
	e.mu.Lock()
	all := slices.Clone(e.of)
	e.mu.Unlock()
	var places []*End // that the process takes
	for _, old := range all {
		if old.Rank != rank && (old.seat != at || at == seat{}) {
			continue
		}
		if lives(old.PID) {
			return
		}
		e.ended(old, "")
		places = append(places, old)
	}
	if len(places) > 0 && !lives(pid) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	end := &End{Rank: rank, PID: pid, seat: at}
	e.of = append(slices.DeleteFunc(e.of, func(old *End) bool { return slices.Contains(places, old) }), end)
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil { // of an older kernel: follow finds its end
		return
	}
	file := os.NewFile(uintptr(fd), "process")
	e.files = append(e.files, file)
	e.waits.Go(func() {
		defer file.Close()
		raw, err := file.SyscallConn()
		if err != nil {
			return
		}
		how := ""
		err = raw.Read(func(fd uintptr) bool {
			n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			if n > 0 {
				how = exited(int(fd), pid)
			}
			return n > 0
		})
		if err == nil {
			e.ended(end, how)
		}
	})
}

// ended notes an end; how it ended may be known later.
func (e *ends) ended(end *End, how string) {
	e.mu.Lock()
	isNew, wake := end.At.IsZero(), e.wake
	if isNew {
		end.At = time.Now()
	}
	end.How = cmp.Or(end.How, how)
	e.mu.Unlock()
	if isNew && wake != nil {
		wake()
	}
}

func (e *ends) close() {
	e.mu.Lock()
	e.closed = true
	for _, f := range e.files {
		_ = f.Close()
	}
	e.mu.Unlock()
	e.waits.Wait()
}

// any reports whether any process is followed.
func (e *ends) any() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.of) > 0
}

// all returns the ranks whose processes have ended, where none took their place.
func (e *ends) all() (all []End) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, end := range e.of {
		if !end.At.IsZero() {
			all = append(all, *end)
		}
	}
	slices.SortFunc(all, func(a, b End) int { return a.Rank - b.Rank })
	return all
}

// OnEnd has a function called after the end of each rank's process.
func OnEnd(b *Bridge, wake func()) {
	b.counts.ends.mu.Lock()
	defer b.counts.ends.mu.Unlock()
	b.counts.ends.wake = wake
}

// exited tells how a process has ended. Until its parent has asked for that, /proc has it; from then on the descriptor, since Linux
// 6.15.
func exited(pidfd, pid int) (how string) {
	const exitCode = 49
	if fields := statOf(pid); len(fields) > exitCode && fields[0][0] == 'Z' {
		n, _ := strconv.Atoi(string(fields[exitCode]))
		return endedBy(syscall.WaitStatus(n))
	}
	const (
		getInfo  = 0xC040FF0B // PIDFD_GET_INFO
		exitInfo = 1 << 3     // PIDFD_INFO_EXIT
		codeAt   = 60
	)
	var info [64]byte
	binary.NativeEndian.PutUint64(info[:], exitInfo)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(pidfd), getInfo, uintptr(unsafe.Pointer(&info)))
	if errno != 0 || binary.NativeEndian.Uint64(info[:])&exitInfo == 0 {
		return ""
	}
	return endedBy(syscall.WaitStatus(binary.NativeEndian.Uint32(info[codeAt:])))
}

// endedBy says how a process ended, as trace.Peer has it.
func endedBy(status syscall.WaitStatus) string {
	if status.Signaled() {
		return fmt.Sprintf("by %s (%v)", unix.SignalName(status.Signal()), status.Signal())
	}
	return trace.ExitCode(status.ExitStatus())
}
