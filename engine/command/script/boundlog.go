//go:build linux

package script

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/timer"
)

// These say how much of a script's output stays in its log: its beginning and its end.
const (
	logHead = 1 << 20
	logTail = 64 << 20
	logRoom = 256 << 20 // left free on the disk
	logNext = 4 << 20   // set aside for what comes next
)

// Reserve sets space aside for what a script prints next, which would fail if others had filled
// the disk. Reserve fails if there is no such space.
func Reserve(log *os.File) error {
	info, err := log.Stat()
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(log.Fd()), unix.FALLOC_FL_KEEP_SIZE, info.Size(), logNext)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return err
	}
	return nil // or a file system on which nothing can be set aside
}

// memory begins the names of logs in memory.
const memory = "/proc/self/fd/"

// LogInMemory returns a log that is on no disk.
func LogInMemory() (*os.File, error) {
	fd, err := unix.MemfdCreate("gpustall-log", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, errs.Wrap(err, "make", "a log in memory", "")
	}
	if _, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_APPEND); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), memory+strconv.Itoa(fd)), nil
}

// IsInMemory reports whether a log is on no disk.
func IsInMemory(log *os.File) bool { return strings.HasPrefix(log.Name(), memory) }

// BoundLog keeps a log from filling its disk until the script has ended. The returned function
// waits for that end. BoundLog keeps the script's first and last output, and gives the space
// between them back. At the end it closes the gap. The script writes to the file itself, so its
// output goes on whatever becomes of gpustall.
func BoundLog(log *os.File, ended <-chan struct{}) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		from, reserved := int64(logHead), int64(0)
		timer.Repeat(ended, 200*time.Millisecond, func() bool {
			from = punch(log, from)
			if info, err := log.Stat(); err == nil && info.Size() > reserved+logNext/4 && Reserve(log) == nil {
				reserved = info.Size()
			}
			return true
		})
		closeUp(log, from)
		if info, err := log.Stat(); err == nil {
			_ = log.Truncate(info.Size()) // gives back what was set aside
		}
	}()
	return func() { <-done }
}

// punch gives back the space of a log between its head and its tail. from is where the space that
// is not given back yet begins.
func punch(log *os.File, from int64) int64 {
	info, err := log.Stat()
	if err != nil {
		return from
	}
	keep := int64(logTail)
	var fs unix.Statfs_t
	if unix.Fstatfs(int(log.Fd()), &fs) == nil && int64(fs.Bavail)*fs.Bsize < logRoom {
		keep = logHead
	}
	to := (info.Size() - keep) &^ 0xfff
	if to < from+logHead || unix.Fallocate(int(log.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from) != nil {
		return from
	}
	return to
}

// closeUp moves the tail of a log up to its head, if space between them was given back.
func closeUp(log *os.File, from int64) {
	info, err := log.Stat()
	if err != nil || from <= logHead {
		return
	}
	flags, err := unix.FcntlInt(log.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return
	}
	if _, err := unix.FcntlInt(log.Fd(), unix.F_SETFL, flags&^unix.O_APPEND); err != nil {
		return // the tail would be written at the end
	}
	defer func() { _, _ = unix.FcntlInt(log.Fd(), unix.F_SETFL, flags) }() // a process of the script's may live on
	said := fmt.Sprintf("\n... gpustall left out %d bytes here: the log keeps the first and the last of what is printed ...\n", from-logHead)
	at := int64(logHead)
	if _, err := unix.Pwrite(int(log.Fd()), []byte(said), at); err != nil {
		return
	}
	at += int64(len(said))
	buffer := make([]byte, 1<<16)
	for read := from; read < info.Size(); {
		n, err := log.ReadAt(buffer, read)
		if n == 0 && err != nil {
			return
		}
		if _, err := unix.Pwrite(int(log.Fd()), buffer[:n], at); err != nil {
			return
		}
		read, at = read+int64(n), at+int64(n)
	}
	_ = log.Truncate(at)
}
