package host

import (
	"bufio"
	"bytes"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// cgroup is where a process's limits are: the directories from its own group up to the mounted
// root. The limits of all of them hold.
type cgroup struct {
	v2   bool
	dirs []string // relative to the root of the file system; its own first
}

// findCgroup finds this process's group of a controller ("cpu"). sys is the root of the machine's
// file system. Both versions of cgroups may be mounted; the one with the controller counts.
func findCgroup(sys fs.FS, controller string) (cgroup, bool) {
	paths := memberships(sys)
	var found cgroup
	lines(sys, "proc/self/mountinfo", func(line string) {
		m, ok := parseMount(line)
		if !ok {
			return
		}
		v1 := m.kind == "cgroup" && contains(m.options, controller)
		if !v1 && (m.kind != "cgroup2" || found.dirs != nil) {
			return // version 1 has the controller, so version 2 has not
		}
		name := ""
		if v1 {
			name = controller
		}
		found = cgroup{v2: !v1, dirs: m.dirs(paths[name])}
	})
	return found, found.dirs != nil
}

// memberships returns the paths of this process's groups by controller. Version 2's group has the
// empty name.
func memberships(sys fs.FS) map[string]string {
	paths := map[string]string{}
	lines(sys, "proc/self/cgroup", func(line string) { // 4:cpu,cpuacct:/path, or 0::/path
		_, rest, _ := strings.Cut(line, ":")
		names, dir, ok := strings.Cut(rest, ":")
		if !ok {
			return
		}
		for name := range strings.SplitSeq(names, ",") {
			paths[name] = dir
		}
	})
	return paths
}

// mount is a line of mountinfo: which directory of a file system is mounted where.
type mount struct {
	root, at string
	kind     string
	options  string // of the file system: a cgroup's controllers, in version 1
}

// parseMount reads "31 23 0:28 /root /at rw,opts shared:1 - cgroup2 source rw,cpu".
func parseMount(line string) (m mount, ok bool) {
	before, after, ok := strings.Cut(line, " - ")
	if !ok {
		return m, false
	}
	where, what := strings.Fields(before), strings.Fields(after)
	if len(where) < 5 || len(what) < 3 {
		return m, false
	}
	return mount{root: where[3], at: unescape.Replace(where[4]), kind: what[0], options: what[2]}, true
}

// unescape reverses how mountinfo writes some characters in octal.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// dirs returns the directories of a group, from its own to the mount's. In a container the group
// may lie outside of what is mounted. Then it is the mount's own directory.
func (m *mount) dirs(group string) []string {
	top := strings.TrimPrefix(path.Clean(m.at), "/")
	rel, inside := strings.CutPrefix(path.Clean("/"+group), strings.TrimSuffix(path.Clean("/"+m.root), "/"))
	var dirs []string
	if rel = strings.Trim(rel, "/"); inside {
		for ; rel != "" && rel != "."; rel = path.Dir(rel) {
			dirs = append(dirs, path.Join(top, rel))
		}
	}
	return append(dirs, top)
}

// quota returns the tightest quota of a group, in cores' time, and the directory of that group. It
// is 0 when no group has one.
func quota(sys fs.FS) (least float64, at string) {
	group, ok := findCgroup(sys, "cpu")
	if !ok {
		return 0, ""
	}
	for _, dir := range group.dirs {
		if q := group.quota(sys, dir); q > 0 && (least == 0 || q < least) {
			least, at = q, dir
		}
	}
	return least, at
}

// quota returns what one directory allows: so many microseconds in each period, as cores' time.
func (g *cgroup) quota(sys fs.FS, dir string) float64 {
	var text [2]string // quota, period
	if g.v2 {
		f := strings.Fields(read(sys, path.Join(dir, "cpu.max"))) // "150000 100000", or "max 100000"
		copy(text[:], f)
	} else {
		text[0] = read(sys, path.Join(dir, "cpu.cfs_quota_us")) // -1 for no limit
		text[1] = read(sys, path.Join(dir, "cpu.cfs_period_us"))
	}
	quota, err := strconv.ParseFloat(text[0], 64)
	period, perr := strconv.ParseFloat(text[1], 64)
	if err != nil || perr != nil || !(quota > 0) || !(period > 0) {
		return 0
	}
	return quota / period
}

// throttling reads how many periods the tightest quota had, and in how many it ran out.
func (s *Sampler) throttling() (periods, throttled Reading) {
	if s.quota == "" {
		r := unknown("no cgroup limits the CPU time")
		return r, r
	}
	name := path.Join(s.quota, "cpu.stat")
	text, there := s.file(name)
	if !there.Known {
		return there, there
	}
	periods, throttled = malformed(name), malformed(name)
	for line := range strings.Lines(text) {
		switch key, value, _ := strings.Cut(line, " "); key {
		case "nr_periods":
			periods = number(name, value)
		case "nr_throttled":
			throttled = number(name, value)
		}
	}
	return periods, throttled
}

// read returns the text of a small file, trimmed; it is empty when the file cannot be read.
func read(sys fs.FS, name string) string {
	b, err := fs.ReadFile(sys, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// lines calls f with each line of a file; with none when the file cannot be read.
func lines(sys fs.FS, name string, f func(line string)) {
	b, err := fs.ReadFile(sys, name)
	if err != nil {
		return
	}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		f(s.Text())
	}
}

func contains(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}
