package host

import (
	"io/fs"
	"strconv"
	"strings"
)

// ticks is how many units of /proc/stat and /proc/self/stat are a second: USER_HZ, which is 100 on
// every architecture that Go runs on.
const ticks = 100

// sector is the unit of /proc/diskstats in bytes, whatever the disk's own sector is.
const sector = 512

// process reads our CPU time and major faults. Where processes come and go, the time of those that
// ended still counts.
func (s *Sampler) process() (cpu, faults Reading) {
	if s.members == nil {
		return s.stat("self")
	}
	now := map[string]float64{}
	for _, member := range s.members() {
		used, f := s.stat(member)
		if used.Known {
			now[member] = used.Value
		}
		faults = plus(known(faults.Value), f)
	}
	sum := 0.0
	for member, used := range s.used {
		if _, lives := now[member]; !lives {
			s.ended += used
		}
	}
	for _, used := range now {
		sum += used
	}
	s.used = now
	return known(sum + s.ended), faults
}

// stat reads the CPU time and faults of one process.
func (s *Sampler) stat(member string) (cpu, faults Reading) {
	name := "proc/" + member + "/stat"
	text, there := s.file(name)
	if !there.Known {
		return there, there
	}
	// The second field is the command in parentheses, which may hold anything.
	f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(f) < 13 {
		return malformed(name), malformed(name)
	}
	user, system := number(name, f[11]), number(name, f[12])
	if !user.Known || !system.Known {
		return malformed(name), number(name, f[9])
	}
	return known((user.Value + system.Value) / ticks), number(name, f[9])
}

// cpuTime reads how long the cores that we may use were busy and idle. Time that the hypervisor
// gave to another machine (steal) is busy, because somebody else had the core.
func (s *Sampler) cpuTime() (busy, idle Reading) {
	const name = "proc/stat"
	text, there := s.file(name)
	if !there.Known {
		return there, there
	}
	var b, i float64
	lines := 0
	for line := range strings.Lines(text) {
		id, ok := strings.CutPrefix(line, "cpu")
		if !ok {
			break
		}
		id, rest, _ := strings.Cut(id, " ")
		if (id == "") != (s.cpus == nil) { // the first line is the sum of all
			continue
		}
		if n, err := strconv.Atoi(id); id != "" && (err != nil || !s.cpus[n]) {
			continue
		}
		// user nice system idle iowait irq softirq steal; guests are part of user.
		f := strings.Fields(rest)
		if len(f) < 4 {
			return malformed(name), malformed(name)
		}
		for k, text := range f[:min(len(f), 8)] {
			v := number(name, text)
			if !v.Known {
				return v, v
			}
			if k == 3 || k == 4 {
				i += v.Value
			} else {
				b += v.Value
			}
		}
		lines++
	}
	if lines == 0 {
		return malformed(name), malformed(name)
	}
	return known(b / ticks), known(i / ticks)
}

// pressure reads the "some" line of a file in /proc/pressure: the time in which at least one task
// waited.
func (s *Sampler) pressure(of string) Reading {
	name := "proc/pressure/" + of
	text, there := s.file(name)
	if !there.Known {
		return there
	}
	line, _, _ := strings.Cut(text, "\n")
	_, total, ok := strings.Cut(line, "total=")
	if !ok || !strings.HasPrefix(line, "some") {
		return malformed(name)
	}
	r := number(name, total)
	r.Value /= 1e6 // from microseconds
	return r
}

// disks returns the block devices that are hardware. Partitions, and devices on top of other disks
// (LVM, RAID, loops), would count twice.
func disks(sys fs.FS) map[string]bool {
	entries, _ := fs.ReadDir(sys, "sys/block") // without entries no disk is visible
	names := map[string]bool{}
	for _, e := range entries {
		if _, err := fs.Stat(sys, "sys/block/"+e.Name()+"/device"); err == nil {
			names[e.Name()] = true
		}
	}
	return names
}

// diskRead reads how much the disks read.
func (s *Sampler) diskRead() Reading {
	const name = "proc/diskstats"
	if len(s.disks) == 0 {
		return unknown("no disk is visible in /sys/block")
	}
	text, there := s.file(name)
	if !there.Known {
		return there
	}
	sum, found := 0.0, false
	for line := range strings.Lines(text) {
		// major minor name reads merged sectors ...
		f := strings.Fields(line)
		if len(f) < 6 || !s.disks[f[2]] {
			continue
		}
		v := number(name, f[5])
		if !v.Known {
			return v
		}
		sum, found = sum+v.Value*sector, true
	}
	if !found {
		return unknown("/" + name + " lists no disk of /sys/block")
	}
	return known(sum)
}

// ourRead reads how much was read from storage for our processes.
func (s *Sampler) ourRead() Reading {
	sum := known(0)
	for _, member := range s.ours() {
		r := s.readOf(member)
		if s.members == nil {
			return r
		}
		if r.Known { // a process that ended is no longer counted: the sum shrinks, and this once is not known
			sum.Value += r.Value
		}
	}
	return sum
}

func (s *Sampler) readOf(member string) Reading {
	name := "proc/" + member + "/io"
	text, there := s.file(name)
	if !there.Known {
		return there
	}
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, "read_bytes:"); ok {
			return number(name, v)
		}
	}
	return malformed(name)
}
