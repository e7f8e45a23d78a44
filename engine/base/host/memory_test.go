package host

import (
	"runtime"
	"testing"
	"testing/fstest"
)

const (
	mountMemoryV1 = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	status        = "Name:\tgpustall\nVmHWM:\t  900 kB\nRssAnon:\t  300 kB\nRssFile:\t  500 kB\nRssShmem:\t    0 kB\n"
	machine       = "MemTotal:       8000 kB\nMemFree:        1000 kB\nMemAvailable:    6000 kB\n"
)

// tree is a file system of these files.
func tree(files map[string]string) fstest.MapFS {
	sys := fstest.MapFS{}
	for path, text := range files {
		sys[path] = &fstest.MapFile{Data: []byte(text)}
	}
	return sys
}

func TestMemory(t *testing.T) {
	const k = 1 << 10
	for name, c := range map[string]struct {
		files map[string]string
		want  Memory
	}{
		"nothing is there": {nil, Memory{}},
		"the machine": {map[string]string{
			"proc/self/status": status, "proc/meminfo": machine,
		}, Memory{Limit: 8000 * k, Others: 1700 * k, Held: 300 * k}},
		"the machine, before Linux 3.14": {map[string]string{
			"proc/self/status": status, "proc/meminfo": "MemTotal: 8000 kB\n",
		}, Memory{Limit: 8000 * k, Held: 300 * k}},
		"version 2, files do not count": {map[string]string{
			"proc/self/status": status, "proc/meminfo": machine, "proc/self/cgroup": "0::/job\n", "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/job/memory.max": "4096000\n", "sys/fs/cgroup/job/memory.current": "2048000\n",
			"sys/fs/cgroup/job/memory.stat": "anon 1\ninactive_file 1000000\nactive_file 24000\nfile 1024000\n",
		}, Memory{Limit: 4000 * k, Cgroup: true, Others: 700 * k, Held: 300 * k}},
		"version 2, a parent leaves less": {map[string]string{
			"proc/self/status": status, "proc/self/cgroup": "0::/pod/job\n", "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/pod/job/memory.max": "3072000\n", "sys/fs/cgroup/pod/job/memory.current": "307200\n",
			"sys/fs/cgroup/pod/memory.max": "4096000\n", "sys/fs/cgroup/pod/memory.current": "3993600\n",
		}, Memory{Limit: 4000 * k, Cgroup: true, Others: 3600 * k, Held: 300 * k}},
		"version 2, the machine leaves less": {map[string]string{
			"proc/self/status": status, "proc/meminfo": machine, "proc/self/cgroup": "0::/\n", "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/memory.max": "8192000\n", "sys/fs/cgroup/memory.current": "307200\n",
		}, Memory{Limit: 8000 * k, Others: 1700 * k, Held: 300 * k}},
		"version 2 without a limit": {map[string]string{
			"proc/self/cgroup": "0::/job\n", "proc/self/mountinfo": mountV2, "sys/fs/cgroup/job/memory.max": "max\n",
		}, Memory{}},
		"version 1, sums over the groups below": {map[string]string{
			"proc/self/status": status, "proc/self/cgroup": "5:memory:/job\n0::/\n", "proc/self/mountinfo": mountMemoryV1 + mountV2,
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes": "4096000\n", "sys/fs/cgroup/memory/job/memory.usage_in_bytes": "2048000\n",
			"sys/fs/cgroup/memory/job/memory.stat":       "inactive_file 1\ntotal_inactive_file 512000\ntotal_active_file 512000\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, Memory{Limit: 4000 * k, Cgroup: true, Others: 700 * k, Held: 300 * k}},
		"others hold more than there is": {map[string]string{
			"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": mountV2, "sys/fs/cgroup/memory.max": "4096\n", "sys/fs/cgroup/memory.current": "8192\n",
		}, Memory{Limit: 4096, Cgroup: true, Others: 8192}},
		"files with nonsense": {map[string]string{
			"proc/self/status": "RssAnon\nRssAnon: much kB\n", "proc/meminfo": "MemTotal: -3 kB\nMemTotal: 99999999999999999999 kB\n",
			"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": mountV2, "sys/fs/cgroup/memory.max": "-1\n", "sys/fs/cgroup/memory.stat": "active_file\n",
		}, Memory{}},
	} {
		if got := memory(tree(c.files)); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if got := (Memory{Limit: 4096, Others: 8192}).Allowed(); got != 1 {
		t.Errorf("%d bytes are allowed where others hold all", got)
	}
}

// TestReadMemory looks at this machine.
func TestReadMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc")
	}
	m := ReadMemory()
	if m.Held < 1<<20 || m.Limit < m.Held || m.Allowed() < m.Held/2 || PeakMemory() < m.Held {
		t.Errorf("%+v, at most %d", m, PeakMemory())
	}
}

// FuzzMemory: whatever the files say, what is allowed is no more than the limit.
func FuzzMemory(f *testing.F) {
	f.Add("0::/job\n", mountV2, "4096000", "2048000", "inactive_file 1000\n", status, machine)
	f.Add("5:memory:/job\n", mountMemoryV1, "9223372036854771712", "1", "total_active_file -1\n", "RssAnon: 1 kB", "MemTotal: 0 kB")
	f.Fuzz(func(t *testing.T, member, mounts, limit, usage, stat, status, machine string) {
		m := memory(tree(map[string]string{
			"proc/self/cgroup": member, "proc/self/mountinfo": mounts, "proc/self/status": status, "proc/meminfo": machine,
			"sys/fs/cgroup/job/memory.max": limit, "sys/fs/cgroup/job/memory.current": usage, "sys/fs/cgroup/job/memory.stat": stat,
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes": limit, "sys/fs/cgroup/memory/job/memory.usage_in_bytes": usage, "sys/fs/cgroup/memory/job/memory.stat": stat,
		}))
		if m.Held < 0 || m.Others < 0 || m.Limit < 0 || m.Allowed() > m.Limit || (m.Allowed() == 0) != (m.Limit == 0) {
			t.Fatalf("%+v allows %d", m, m.Allowed())
		}
	})
}
