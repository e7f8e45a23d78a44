//go:build linux

package bridge

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// folders begins the names of bridges' folders.
const folders = "gpustall-torch-"

// rings is the folder of the rings within a bridge's, where they are not in memory.
const rings = "rings"

// ownerFile is a file in each of a bridge's folders with the path of its rings. It is locked while gpustall runs.
const ownerFile = "owner"

// owners are the locked files of a bridge's folders.
type owners []*os.File

// lock locks a bridge's folders until they are closed. Rings in memory have a folder and a lock of their own.
// So they are found even if TMPDIR has changed or was emptied. Nobody removes what a killed gpustall leaves
// in a folder without a lock.
func lock(dir, shared string) (all owners) {
	for _, d := range []string{dir, shared} {
		if d == filepath.Join(dir, rings) {
			continue
		}
		if f, err := own(d, shared); err == nil {
			all = append(all, f)
		}
	}
	return all
}

func (o owners) Close() (err error) {
	for _, f := range o {
		err = errors.Join(err, f.Close())
	}
	return err
}

// own locks a folder until the returned file is closed.
func own(dir, shared string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, ownerFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		_, err = f.WriteString(shared)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// unused is how long a folder is kept in which no process has written, because a script may still do
// so.
const unused = time.Hour

// removeLeftovers removes the folders of a gpustall that was killed, once its training has ended too.
func removeLeftovers(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, folders+"*")) // a bad pattern finds nothing
	for _, dir := range dirs {
		removeLeftover(dir)
	}
}

func removeLeftover(dir string) {
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() || !ours(info) { // a file of another user may say anything
		return
	}
	f, err := os.OpenFile(filepath.Join(dir, ownerFile), os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil { // gpustall runs
		return
	}
	text, err := os.ReadFile(f.Name())
	shared := string(text)
	inMemory := filepath.Dir(shared) == memoryFiles && strings.HasPrefix(filepath.Base(shared), folders)
	if err != nil || !inMemory && shared != filepath.Join(dir, rings) && shared != dir {
		return
	}
	entries, _ := os.ReadDir(shared)
	written := false
	for _, e := range entries {
		name := strings.TrimPrefix(strings.TrimPrefix(e.Name(), "part-"), "ring-")
		id, _, _ := strings.Cut(strings.TrimPrefix(name, "messages-"), "-")
		if pid, err := strconv.Atoi(id); err == nil {
			written = true
			if lives(pid) { // or another process with that number, and then the folder stays
				return
			}
		}
	}
	if info, err := f.Stat(); !written && (err != nil || time.Since(info.ModTime()) < unused) {
		return
	}
	_ = os.RemoveAll(shared)
	_ = os.RemoveAll(dir)
}

// lives reports whether a process has not ended, and does not end now. A zombie has ended: nobody has waited for it, as in a
// container whose first process waits for none.
func lives(pid int) bool {
	if pid <= 0 || errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
		return false
	}
	const flagsAt = 6
	fields := statOf(pid)
	if len(fields) <= flagsAt {
		return true
	}
	const exiting = 4 // PF_EXITING: its files are closed before it is a zombie
	flags, _ := strconv.ParseUint(string(fields[flagsAt]), 10, 64)
	return fields[0][0] != 'Z' && flags&exiting == 0
}

// statOf returns the fields of /proc/PID/stat after the name: the state, the parent, and so on. It returns none where they cannot
// be read.
func statOf(pid int) [][]byte {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := bytes.Cut(stat, []byte(") "))
	return bytes.Fields(after)
}

// ours reports whether a file belongs to this user.
func ours(info os.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Getuid()
}
