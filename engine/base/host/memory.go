package host

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Memory is how much of the host's memory this process may hold, in bytes. The page cache does not
// count, because the kernel takes it back.
type Memory struct {
	Limit  int64 // of the tightest cgroup, or of the machine; 0 when it is not known
	Cgroup bool  // the limit is a cgroup's
	Others int64 // held by others
	Held   int64 // held by this process
}

// Allowed returns how much this process may hold in all; 0 when that is not known.
func (m Memory) Allowed() int64 {
	if m.Limit == 0 {
		return 0
	}
	return max(1, m.Limit-m.Others)
}

// ReadMemory reads the memory of this process, of its cgroups and of the machine.
func ReadMemory() Memory { return memory(os.DirFS("/")) }

// MemoryUsed returns the share in use of the memory that the machine or a cgroup of this process
// allows: of the one that leaves least. It is false where none is known. New looked up the cgroups.
func (s *Sampler) MemoryUsed() (share float64, known bool) {
	m := tightest(s.sys, s.memory, 0)
	if m.Limit == 0 {
		return 0, false
	}
	return min(1, float64(m.Others)/float64(m.Limit)), true
}

// PeakMemory returns the most memory that this process ever had resident, in bytes, with the files
// that it maps (its own program too). It is 0 when not known.
func PeakMemory() int64 { return kibibytes(os.DirFS("/"), "proc/self/status", "VmHWM") }

// PrivateMemory returns the memory that a process shares with no other, in bytes. It leaves out
// pages that are in a file too, which the kernel can drop. It is 0 when not known.
func PrivateMemory(pid int) int64 {
	file := fmt.Sprintf("proc/%d/smaps_rollup", pid)
	return kibibytes(os.DirFS("/"), file, "Private_Dirty")
}

// unlimited is more than any memory, and less than what version 1 writes where there is no limit:
// the largest multiple of a page below 2^63.
const unlimited = 1 << 62

// memory returns the limit that leaves this process the least.
func memory(sys fs.FS) Memory {
	group, _ := findCgroup(sys, "memory")
	return tightest(sys, group, kibibytes(sys, "proc/self/status", "RssAnon", "RssShmem"))
}

// tightest returns the limit that leaves least to a process that holds so much.
func tightest(sys fs.FS, group cgroup, held int64) Memory {
	least := Memory{Held: held}
	take := func(m Memory) {
		m.Held, m.Others = held, max(0, m.Others-held)
		if m.Limit > 0 && (least.Limit == 0 || m.Allowed() < least.Allowed()) {
			least = m
		}
	}
	if total := kibibytes(sys, "proc/meminfo", "MemTotal"); total > 0 {
		free := kibibytes(sys, "proc/meminfo", "MemAvailable") // since Linux 3.14
		if free == 0 || free > total {
			free = total
		}
		take(Memory{Limit: total, Others: total - free})
	}
	for _, dir := range group.dirs {
		take(group.memory(sys, dir))
	}
	return least
}

// memory returns the limit of one directory, and what all processes in it hold.
func (g *cgroup) memory(sys fs.FS, dir string) Memory {
	limit, usage, file := "memory.max", "memory.current", "" // "max" for no limit
	if !g.v2 {
		limit, usage, file = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"
	}
	count := func(name string) int64 {
		v, err := strconv.ParseInt(read(sys, path.Join(dir, name)), 10, 64)
		if err != nil || v < 0 || v >= unlimited {
			return 0
		}
		return v
	}
	m := Memory{Limit: count(limit), Cgroup: true, Others: count(usage)}
	if m.Limit == 0 {
		return m
	}
	// Pages of files. Those of a tmpfs are not among them: the kernel counts them as anonymous.
	lines(sys, path.Join(dir, "memory.stat"), func(line string) {
		switch name, value, _ := strings.Cut(line, " "); strings.TrimPrefix(name, file) {
		case "inactive_file", "active_file":
			if v, err := strconv.ParseInt(value, 10, 64); err == nil && v > 0 && strings.HasPrefix(name, file) {
				m.Others -= min(v, m.Others)
			}
		}
	})
	return m
}

// kibibytes adds up the lines "name:   1234 kB" of a file that have one of names. It is 0 when
// there is none.
func kibibytes(sys fs.FS, file string, names ...string) (bytes int64) {
	lines(sys, file, func(line string) {
		key, value, _ := strings.Cut(line, ":")
		if !slices.Contains(names, key) {
			return
		}
		v, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 10, 64)
		if err == nil && v > 0 && v < unlimited>>10 {
			bytes += v << 10
		}
	})
	return bytes
}
