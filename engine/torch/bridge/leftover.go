//go:build linux

package bridge

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// folders are how the folders of bridges are called.
const folders = "gpustall-torch-"

// ownerFile, in a bridge's folder, names that of its rings, and is locked for as long as gpustall runs.
const ownerFile = "owner"

// own locks a bridge's folder until the returned file is closed.
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

// unused is for how long a folder stays in which no process has written anything: a script may still come to it.
const unused = time.Hour

// removeLeftovers removes what a gpustall that was killed has left, where its training has ended too.
func removeLeftovers(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, folders+"*")) // a pattern that is none finds nothing
	for _, dir := range dirs {
		removeLeftover(dir)
	}
}

func removeLeftover(dir string) {
	f, err := os.OpenFile(filepath.Join(dir, ownerFile), os.O_RDWR, 0) // nobody else's can be opened
	if err != nil {
		return
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil { // gpustall runs
		return
	}
	text, err := os.ReadFile(f.Name())
	shared := string(text)
	if err != nil || !strings.HasPrefix(filepath.Base(shared), folders) && filepath.Dir(shared) != dir {
		return
	}
	entries, _ := os.ReadDir(shared)
	written := false
	for _, e := range entries {
		name := strings.TrimPrefix(strings.TrimPrefix(e.Name(), "part-"), "ring-")
		id, _, _ := strings.Cut(strings.TrimPrefix(name, "messages-"), "-")
		if pid, err := strconv.Atoi(id); err == nil {
			written = true
			if unix.Kill(pid, 0) == nil { // or another process of that number: then it stays
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
