package host

import (
	"io/fs"
	"os"
	"path"
	"slices"
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
	of := memberships(sys)
	switch {
	case ok && group.v2:
		for _, dir := range group.dirs {
			if read(sys, path.Join(dir, "cpu.weight")) != "" { // the root has none
				return ByCgroup, path.Join(dir, "cpu.stat")
			}
		}
	case ok && path.Clean("/"+of["cpu"]) != "/":
		if counts, ok := findCgroup(sys, "cpuacct"); ok && of["cpuacct"] == of["cpu"] { // it may be mounted elsewhere
			group = counts
		}
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
// is in. They are the descendants of its leader that are still in it, and those whose parent has ended. What they used
// between two looks counts, also of those that end.
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
	for _, p := range slices.Concat(family(s.sys, pid), s.orphans(leader)) {
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

// orphans returns the processes of a session whose parent has ended, with their descendants. An ancestor of the session's
// leader has adopted them. A process joins no session that is there already, so each is looked at once.
func (s *Sampler) orphans(leader string) (all []int) {
	now := map[string]bool{}
	at, _ := s.place(leader)
	for range maxAncestors {
		if at == "" || at == "0" {
			break
		}
		for child := range strings.FieldsSeq(read(s.sys, "proc/"+at+"/task/"+at+"/children")) {
			in, known := s.adopted[child]
			if !known {
				in = child != leader && s.sessionOf(child) == leader
			}
			if now[child] = in; in {
				pid, _ := strconv.Atoi(child)
				all = append(all, family(s.sys, pid)...)
			}
		}
		at, _ = s.place(at)
	}
	s.adopted = now
	return all
}

// maxAncestors is how many ancestors of a session's leader are looked at.
const maxAncestors = 64

// sessionOf returns the number of a process's session; empty where that is not known.
func (s *Sampler) sessionOf(member string) string {
	_, session := s.place(member)
	return session
}

// place returns the numbers of a process's parent and session; empty where they are not known.
func (s *Sampler) place(member string) (parent, session string) {
	text := read(s.sys, "proc/"+member+"/stat")
	f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(f) < 4 {
		return "", ""
	}
	return f[1], f[3]
}
