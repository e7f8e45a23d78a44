package host

import (
	"runtime"
	"testing"
)

const (
	mountV2 = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	mountV1 = "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
)

func TestQuota(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  float64
	}{
		"nothing is there": {nil, 0},
		"version 2": {map[string]string{
			"proc/self/cgroup": "0::/job\n", "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/job/cpu.max": "150000 100000\n",
		}, 1.5},
		"version 2 without a limit": {map[string]string{
			"proc/self/cgroup": "0::/job\n", "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/job/cpu.max": "max 100000\n",
		}, 0},
		"version 2, a parent allows less": {map[string]string{
			"proc/self/cgroup": "0::/slice/pod/job\n", "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/slice/pod/job/cpu.max": "400000 100000\n",
			"sys/fs/cgroup/slice/pod/cpu.max":     "max 100000\n",
			"sys/fs/cgroup/slice/cpu.max":         "200000 100000\n",
		}, 2},
		"version 2, in a container with its own names": {map[string]string{
			"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/cpu.max": "50000 100000\n",
		}, 0.5},
		"version 2, only the container's group is mounted": {map[string]string{
			"proc/self/cgroup":          "0::/pod/job\n",
			"proc/self/mountinfo":       "31 23 0:28 /pod /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
			"sys/fs/cgroup/cpu.max":     "300000 100000\n",
			"sys/fs/cgroup/job/cpu.max": "250000 100000\n",
		}, 2.5},
		"version 2, a group outside of what is mounted": {map[string]string{
			"proc/self/cgroup":      "0::/../other\n",
			"proc/self/mountinfo":   "31 23 0:28 /pod /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
			"sys/fs/cgroup/cpu.max": "300000 100000\n",
		}, 3},
		"version 1": {map[string]string{
			"proc/self/cgroup": "5:memory:/x\n4:cpu,cpuacct:/job\n", "proc/self/mountinfo": mountV1,
			"sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us":  "250000\n",
			"sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us":      "-1\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us":     "100000\n",
		}, 2.5},
		"version 1 beside a version 2 without controllers": {map[string]string{
			"proc/self/cgroup": "4:cpu,cpuacct:/job\n0::/job\n", "proc/self/mountinfo": mountV1 + "34 31 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			"sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us":  "100000\n",
			"sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/unified/job/cpu.max":               "900000 100000\n",
		}, 1},
		"cpuset is not cpu": {map[string]string{
			"proc/self/cgroup": "4:cpuset:/job\n", "proc/self/mountinfo": "33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n",
			"sys/fs/cgroup/cpuset/job/cpu.cfs_quota_us":  "100000\n",
			"sys/fs/cgroup/cpuset/job/cpu.cfs_period_us": "100000\n",
		}, 0},
		"a mount point with a space": {map[string]string{
			"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": `31 23 0:28 / /my\040groups rw - cgroup2 cgroup2 rw` + "\n",
			"my groups/cpu.max": "200000 100000\n",
		}, 2},
		"files with nonsense": {map[string]string{
			"proc/self/cgroup": "what\n0::/job\n", "proc/self/mountinfo": "what - is this\n" + mountV2,
			"sys/fs/cgroup/job/cpu.max": "NaN\n",
			"sys/fs/cgroup/cpu.max":     "100000 0\n",
		}, 0},
	} {
		if got, _ := quota(tree(c.files)); got != c.want {
			t.Errorf("%s: %v cores, want %v", name, got, c.want)
		}
	}
}

func TestCores(t *testing.T) {
	for _, c := range []struct {
		affinity int
		quota    float64
		want     int
	}{
		{8, 0, 8}, {8, 2, 2}, {8, 1.5, 2}, {8, 0.25, 1}, {2, 16, 2}, {0, 0, runtime.NumCPU()}, {1, 0.999, 1},
	} {
		if got := cores(c.affinity, c.quota); got != c.want {
			t.Errorf("affinity to %d cpus, a quota of %v: %d cores, want %d", c.affinity, c.quota, got, c.want)
		}
	}
	if n := Cores(); n < 1 || n > runtime.NumCPU() {
		t.Errorf("%d cores of %d", n, runtime.NumCPU())
	}
}

func FuzzQuota(f *testing.F) {
	f.Add("0::/job\n", mountV2, "150000 100000")
	f.Add("4:cpu,cpuacct:/job\n", mountV1, "-1")
	f.Fuzz(func(t *testing.T, member, mounts, limit string) {
		q, _ := quota(tree(map[string]string{
			"proc/self/cgroup": member, "proc/self/mountinfo": mounts, "sys/fs/cgroup/cpu.max": limit, "sys/fs/cgroup/job/cpu.max": limit,
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": limit, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
		}))
		if n := cores(4, q); !(q >= 0) || n < 1 || n > 4 {
			t.Fatalf("a quota of %v makes %d cores of 4", q, n)
		}
	})
}
