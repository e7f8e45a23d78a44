//go:build unix

package command

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// startingExt is the extension of the file that says that a session is about to begin. The process that
// will write the session keeps the file locked, so the file of a killed process says nothing.
const startingExt = ".starting"

// announce says in a folder that a session of that name is about to begin, until came is
// called.
func announce(dir, name string) (came func()) {
	path := filepath.Join(dir, name+startingExt)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return func() {} // nobody waits for the session, and no more is lost
	}
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	return sync.OnceFunc(func() {
		_ = os.Remove(path)
		_ = f.Close()
	})
}

// starting returns the name of the session that is about to begin in a folder, or "". If there are
// several, it returns the last announced one.
func starting(dir string) string {
	entries, _ := os.ReadDir(dir) // sorted: the names begin with the time
	for _, e := range slices.Backward(entries) {
		name, ok := strings.CutSuffix(e.Name(), startingExt)
		if !ok {
			continue
		}
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			continue
		}
		locked := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil
		_ = f.Close()
		if locked {
			return name
		}
	}
	return ""
}
