package host

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// TestSharedOut: the kernel shares cores by cgroup below the root group, else by session where
// autogroup is on, else by thread.
func TestSharedOut(t *testing.T) {
	stat := "42 (x) R 1 42 40 0 -1 0 0 0 7 0 1500 500 0 0\n"
	for _, c := range []struct {
		name       string
		files      map[string]string
		how, usage string
	}{
		{"nothing is there", nil, "", ""},
		{"no groups", map[string]string{"proc/self/stat": stat}, ByThread, ""},
		{"autogroup is off", map[string]string{"proc/self/stat": stat, "proc/sys/kernel/sched_autogroup_enabled": "0\n"}, ByThread, ""},
		{"autogroup", map[string]string{"proc/self/stat": stat, "proc/sys/kernel/sched_autogroup_enabled": "1\n"}, BySession, ""},
		{"version 2", map[string]string{
			"proc/self/cgroup": "0::/job\n", "proc/self/mountinfo": mountV2, "sys/fs/cgroup/job/cpu.weight": "100\n", "proc/sys/kernel/sched_autogroup_enabled": "1\n",
		}, ByCgroup, "sys/fs/cgroup/job/cpu.stat"},
		{"version 2, a parent has the controller", map[string]string{
			"proc/self/cgroup": "0::/slice/job\n", "proc/self/mountinfo": mountV2, "sys/fs/cgroup/slice/cpu.weight": "100\n",
		}, ByCgroup, "sys/fs/cgroup/slice/cpu.stat"},
		{"version 2, the root", map[string]string{
			"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": mountV2, "proc/sys/kernel/sched_autogroup_enabled": "1\n",
		}, BySession, ""},
		{"version 1", map[string]string{"proc/self/cgroup": "4:cpu,cpuacct:/job\n", "proc/self/mountinfo": mountV1}, ByCgroup, "sys/fs/cgroup/cpu,cpuacct/job/cpuacct.usage"},
		{"version 1, counted in another hierarchy", map[string]string{
			"proc/self/cgroup": "5:cpu:/job\n4:cpuacct:/job\n", "proc/self/mountinfo": strings.ReplaceAll(mountV1, "cpu,cpuacct", "cpu") + strings.ReplaceAll(mountV1, "cpu,cpuacct", "cpuacct"),
		}, ByCgroup, "sys/fs/cgroup/cpuacct/job/cpuacct.usage"},
		{"version 1, the root", map[string]string{
			"proc/self/cgroup": "4:cpu,cpuacct:/\n", "proc/self/mountinfo": mountV1, "proc/sys/kernel/sched_autogroup_enabled": "1\n",
		}, BySession, ""},
	} {
		if how, usage := sharedOut(tree(c.files)); how != c.how || usage != c.usage {
			t.Errorf("%s: %q, %q, want %q, %q", c.name, how, usage, c.how, c.usage)
		}
	}
}

// TestGroupTime: of what others use, only what shares cores with us by the thread counts: all of it,
// what our session used, or our cgroup.
func TestGroupTime(t *testing.T) {
	stat := func(session, used int) string {
		return fmt.Sprintf("1 (a) b) R 1 1 %d 0 -1 0 0 0 7 0 %d 0 0 0\n", session, used)
	}
	at := func(second int) fstest.MapFS {
		return tree(map[string]string{
			"proc/stat":      fmt.Sprintf("cpu  1 0 0 0\ncpu0 %d 0 0 1000\n", 100*second),
			"proc/self/stat": stat(40, 20*second), "proc/42/stat": stat(40, 20*second),
			"proc/40/stat": stat(40, 0), "proc/40/task/40/children": "42 43 44 \n", "proc/42/task/42/children": "",
			"proc/43/stat": stat(40, 30*second), "proc/43/task/43/children": "", "proc/44/stat": stat(44, 10*second), "proc/44/task/44/children": "",
			// The parents of 50 and 51 have ended. 50 is of our session, and so is its child.
			"proc/1/task/1/children": "40 50 51 \n", "proc/51/stat": stat(51, 40*second), "proc/50/stat": stat(40, 5*second),
			"proc/50/task/50/children": "52 ", "proc/52/stat": stat(40, 3*second),
			"sys/fs/cgroup/job/cpu.stat":                    fmt.Sprintf("usage_usec %d\nuser_usec 0\n", 600_000*second),
			"sys/fs/cgroup/cpu,cpuacct/job/cpuacct.usage":   fmt.Sprintf("%d\n", 250_000_000*second),
			"sys/fs/cgroup/cpu,cpuacct/other/cpuacct.usage": "x\n",
		})
	}
	for _, c := range []struct {
		sharing, usage string
		want           float64 // percent of the core
		known          bool
	}{
		{ByThread, "", 80, true},
		{BySession, "", 38, true},
		{ByCgroup, "sys/fs/cgroup/job/cpu.stat", 40, true},
		{ByCgroup, "sys/fs/cgroup/cpu,cpuacct/job/cpuacct.usage", 5, true},
		{ByCgroup, "sys/fs/cgroup/cpu,cpuacct/other/cpuacct.usage", 0, false},
		{ByCgroup, "sys/fs/cgroup/none", 0, false},
		{"", "", 0, false},
	} {
		s := newSampler(at(1), []int{0})
		s.members = func() []string { return []string{"42"} }
		s.sharing, s.usage = c.sharing, c.usage
		prev := s.Sample()
		s.sys = at(2)
		cur := s.Sample()
		cur.At = prev.At.Add(time.Second)
		if r := between(t, prev, cur)["CPUGroup"]; r.Known != c.known || math.Abs(r.Value-c.want) > 1e-6 || !r.Known && r.Why == "" {
			t.Errorf("%s %s: %+v, want %v", c.sharing, c.usage, r, c.want)
		}
		s.Close()
	}
}
