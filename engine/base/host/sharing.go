package host

import (
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
)

// How the kernel shares out cores that more threads want than there are.
const (
	ByThread  = "by thread"
	BySession = "by login session (autogroup)" // and in a session by thread
	ByCgroup  = "by cgroup"                    // and in a cgroup by thread
)

// SharedOut says how the cores are shared out here; it is empty where that is not known.
func SharedOut() string {
	how, _ := sharedOut(os.DirFS("/"))
	return how
}

// sharedOut returns how the cores are shared out, and the file that counts the CPU time of our cgroup
// where that is by cgroup. In the root cgroup, autogroup makes a group of each session.
func sharedOut(sys fs.FS) (how, usage string) {
	group, ok := findCgroup(sys, "cpu")
	switch {
	case ok && group.v2:
		for _, dir := range group.dirs {
			if read(sys, path.Join(dir, "cpu.weight")) != "" { // the root has none
				return ByCgroup, path.Join(dir, "cpu.stat")
			}
		}
	case ok && path.Clean("/"+memberships(sys)["cpu"]) != "/":
		return ByCgroup, path.Join(group.dirs[0], "cpuacct.usage")
	}
	switch {
	case read(sys, "proc/sys/kernel/sched_autogroup_enabled") == "1":
		return BySession, ""
	case read(sys, "proc/self/stat") != "":
		return ByThread, ""
	}
	return "", ""
}

// groupTime reads the CPU time of the group that we share cores with by the thread, ours included.
// busy is that of all processes.
func (s *Sampler) groupTime(ours, busy Reading) Reading {
	switch s.sharing {
	case ByThread:
		return busy
	case BySession:
		return plus(ours, s.sessionTime())
	case ByCgroup:
		text, there := s.file(s.usage)
		if !there.Known {
			return there
		}
		if path.Base(s.usage) == "cpuacct.usage" {
			return ratio(number(s.usage, text), known(1e9))
		}
		for line := range strings.Lines(text) {
			if v, ok := strings.CutPrefix(line, "usage_usec "); ok {
				return ratio(number(s.usage, v), known(1e6))
			}
		}
		return malformed(s.usage)
	}
	return unknown("how the cores are shared out is not known")
}

// sessionTime adds up the CPU time of other processes of the session that the first of our processes
// is in. They are the descendants of its leader that are still in it. What they used between two looks
// counts, also of those that end.
func (s *Sampler) sessionTime() Reading {
	ours, leader := map[string]bool{}, ""
	for _, member := range s.ours() {
		if ours[member] = true; leader == "" {
			leader = s.sessionOf(member)
		}
	}
	if leader == "" {
		return unknown("the session of the processes is not known")
	}
	pid, _ := strconv.Atoi(leader)
	own := strconv.Itoa(os.Getpid())
	now := map[string]float64{}
	for _, p := range family(s.sys, pid) {
		member := strconv.Itoa(p)
		if ours[member] || s.members == nil && member == own || s.sessionOf(member) != leader {
			continue
		}
		if used, _ := s.stat(member); used.Known {
			now[member] = used.Value
			if before, seen := s.beside[member]; seen {
				s.besides += max(0, used.Value-before)
			}
		}
	}
	s.beside = now
	return known(s.besides)
}

// sessionOf returns the number of a process's session; empty where that is not known.
func (s *Sampler) sessionOf(member string) string {
	text := read(s.sys, "proc/"+member+"/stat")
	f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(f) < 4 {
		return ""
	}
	return f[3]
}
