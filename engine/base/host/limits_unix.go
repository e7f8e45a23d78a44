//go:build unix

package host

import (
	"os"

	"golang.org/x/sys/unix"
)

// Limit is a limit that the system sets for this process; Unlimited where there is none.
type Limit struct {
	Most      int64
	Unlimited bool
	Known     bool
}

// OpenFiles returns how many files this process may have open at once (RLIMIT_NOFILE), and how
// many it has open; -1 where that is not known.
func OpenFiles() (most Limit, open int) {
	open = -1
	if entries, err := os.ReadDir("/proc/self/fd"); err == nil {
		open = len(entries) - 1 // the folder itself was open at that moment
	}
	return limit(unix.RLIMIT_NOFILE), open
}

// LockedMemory returns how many bytes this process may page-lock (RLIMIT_MEMLOCK).
func LockedMemory() Limit { return limit(unix.RLIMIT_MEMLOCK) }

func limit(of int) (l Limit) {
	var r unix.Rlimit
	if unix.Getrlimit(of, &r) != nil {
		return l
	}
	return Limit{Most: int64(min(r.Cur, 1<<62)), Unlimited: r.Cur == unix.RLIM_INFINITY, Known: true}
}
