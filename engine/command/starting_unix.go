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

// startingExt is of the file that says that a session is to come. Whoever will write the session has it
// locked, so the file of a process that was killed says nothing.
const startingExt = ".starting"

// announce says in a folder that a session of that name is to come, until came is called.
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

// starting returns the name of the session that is to come in a folder, of several the last one that was
// announced; empty where there is none.
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
