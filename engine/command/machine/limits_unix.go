//go:build unix

package machine

import (
	"fmt"

	"github.com/shirou/gopsutil/v4/disk"
	"golang.org/x/sys/unix"

	"dev.gpustall/engine/base/units"
)

// limits returns the limits of the operating system that matter to a loader.
func limits() []finding {
	var out []finding
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r) == nil {
		f := finding{"ok", "memlock", "unlimited"}
		if r.Max != unix.RLIM_INFINITY {
			f = finding{"note", "memlock", units.Prose.Bytes(int64(r.Cur)) + "; a driver's page-locked memory does not count against it"}
		}
		out = append(out, f)
	}
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) == nil {
		f := finding{"ok", "open files", fmt.Sprint(r.Cur)}
		if r.Cur < 1024 {
			f = finding{"note", "open files", fmt.Sprintf("%d; raise it (ulimit -n 4096) for many workers", r.Cur)}
		}
		out = append(out, f)
	}
	if u, err := disk.Usage("/dev/shm"); err == nil {
		out = append(out, finding{"ok", "/dev/shm", units.Prose.Bytes(int64(u.Total)) + "; gpustall's workers are threads and need none, PyTorch's do"})
	}
	return out
}
