package host

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestLimits reads the fixture trees. They are version 2 with the quota in a slice
// above, version 1 beside an empty version 2, a container that sees only its own
// groups, and none at all.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		tree   string
		quota  float64
		memory int64
	}{
		{tree: "v2", quota: 1.5, memory: 4 << 30},
		{tree: "v1", quota: 0.5},
		{tree: "container", quota: 3.5, memory: 1 << 30},
		{tree: "none"},
	} {
		sys := os.DirFS(filepath.Join("testdata", c.tree))
		if q, _ := quota(sys); q != c.quota || memory(sys).Limit != c.memory {
			t.Errorf("%s: quota %v, memory %+v; want %v and %d", c.tree, q, memory(sys), c.quota, c.memory)
		}
	}
}

// change writes a file of a copied tree anew.
func change(t *testing.T, root, name, from, to string) {
	t.Helper()
	file := filepath.Join(root, name)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(b), from, to, 1)
	if text == string(b) {
		t.Fatalf("%s has no %q", name, from)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// between returns the rates between two samples by their names.
func between(t *testing.T, prev, cur Sample) map[string]Reading {
	rates, ok := Between(prev, cur)
	if !ok {
		t.Fatal("no time lies between the samples")
	}
	out := map[string]Reading{}
	for field, value := range reflect.ValueOf(rates).Fields() {
		out[field.Name] = value.Interface().(Reading)
	}
	return out
}

// TestRates lets the counters of a tree grow for two seconds.
func TestRates(t *testing.T) {
	for _, c := range []struct {
		tree, stat, throttled string
		want                  map[string]float64
		why                   map[string]string
	}{
		{tree: "v2", stat: "sys/fs/cgroup/work.slice/cpu.stat", throttled: "nr_throttled 100", want: map[string]float64{
			"CPUOurs": 37.5, "CPUOthers": 25, "CPUIdle": 37.5, "CPUGroup": 25, "RunQueue": 40,
			"PressureCPU": 25, "PressureIO": 0, "PressureMemory": 0,
			"Throttled": 25, "MajorFaults": 2, "DiskRead": 1000 * 512 / 2, "DiskOurs": 2048,
		}},
		{tree: "v1", stat: "sys/fs/cgroup/cpu and acct/job/cpu.stat", throttled: "nr_throttled 250", want: map[string]float64{
			"CPUOurs": 37.5, "CPUOthers": 25, "CPUIdle": 37.5, "RunQueue": 40,
			"PressureCPU": 25, "PressureIO": 0, "PressureMemory": 0,
			"Throttled": 25, "MajorFaults": 2, "DiskRead": 1000 * 512 / 2, "DiskOurs": 2048,
		}, why: map[string]string{"CPUGroup": "/sys/fs/cgroup/cpu and acct/job/cpuacct.usage is not there"}},
		{tree: "none", want: map[string]float64{
			"CPUOurs": 37.5, "CPUOthers": 25, "CPUIdle": 37.5, "CPUGroup": 25, "MajorFaults": 2,
		}, why: map[string]string{
			"RunQueue": "/proc/self/task is not there", "PressureCPU": "/proc/pressure/cpu is not there",
			"PressureIO": "/proc/pressure/io is not there", "PressureMemory": "/proc/pressure/memory is not there",
			"Throttled": "no cgroup limits the CPU time", "DiskRead": "no disk is visible in /sys/block", "DiskOurs": "/proc/self/io is not there",
		}},
	} {
		t.Run(c.tree, func(t *testing.T) {
			root := t.TempDir()
			if err := os.CopyFS(root, os.DirFS(filepath.Join("testdata", c.tree))); err != nil {
				t.Fatal(err)
			}
			s := newSampler(os.DirFS(root), []int{0, 1})
			defer s.Close()
			prev := s.Sample()
			// 1.5 s of ours; on the two cores of four that are ours 2.5 s busy (one
			// of them stolen) and 1.5 s idle.
			change(t, root, "proc/self/stat", " 7 0 1500 500 ", " 11 0 1600 550 ")
			change(t, root, "proc/stat", "cpu0 1000 100 300 2000 100 0 50 100", "cpu0 1100 100 300 2050 100 0 50 200")
			change(t, root, "proc/stat", "cpu1 1000 0 200 2000 100", "cpu1 1000 0 250 2000 200")
			change(t, root, "proc/stat", "cpu2 1000", "cpu2 2000")
			if c.stat != "" {
				// Both threads go on, one is new; in all 1.2 s on a core and 0.8 s waiting.
				change(t, root, "proc/self/task/42/schedstat", "2000000000 500000000", "2800000000 1000000000")
				change(t, root, "proc/self/task/43/schedstat", "1000000000 500000000", "1300000000 700000000")
				if err := os.CopyFS(filepath.Join(root, "proc/self/task/44"), os.DirFS(filepath.Join(root, "proc/self/task/43"))); err != nil {
					t.Fatal(err)
				}
				change(t, root, "proc/self/task/44/schedstat", "1300000000 700000000", "100000000 100000000")
				change(t, root, "proc/pressure/cpu", "total=3000000", "total=3500000")
				change(t, root, "proc/diskstats", "nvme0n1 100 0 8000", "nvme0n1 110 0 9000")
				change(t, root, "proc/diskstats", "loop0 100 0 9999", "loop0 100 0 99999")
				change(t, root, "proc/self/io", "4096000", "4100096")
				change(t, root, c.stat, "nr_periods 1000", "nr_periods 1020")
				change(t, root, c.stat, c.throttled, c.throttled[:len(c.throttled)-1]+"5")
			}
			cur := s.Sample()
			cur.At = prev.At.Add(2 * time.Second)
			rates := between(t, prev, cur)
			if len(rates) != len(c.want)+len(c.why) {
				t.Errorf("%d rates, want %d", len(rates), len(c.want)+len(c.why))
			}
			for name, r := range rates {
				want, ok := c.want[name]
				if r.Known != ok || math.Abs(r.Value-want) > 1e-9 || r.Why != c.why[name] {
					t.Errorf("%s %+v, want %v or %q", name, r, want, c.why[name])
				}
			}
		})
	}
}

// TestThreadsThatEnd: what an ended thread had stays in the sums.
func TestThreadsThatEnd(t *testing.T) {
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("testdata/v2")); err != nil {
		t.Fatal(err)
	}
	s := newSampler(os.DirFS(root), []int{0, 1})
	defer s.Close()
	if a := s.Sample(); a.Running.Value != 3 || a.Waiting.Value != 1 {
		t.Fatalf("%+v %+v", a.Running, a.Waiting)
	}
	if err := os.RemoveAll(filepath.Join(root, "proc/self/task/43")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if b := s.Sample(); b.Running.Value != 3 || b.Waiting.Value != 1 || len(s.threads) != 1 {
			t.Fatalf("%+v %+v, %d threads", b.Running, b.Waiting, len(s.threads))
		}
	}
}

// TestCountersThatSayNothing: files that are not as the kernel writes them, or that
// count nothing, are unknown with a reason.
func TestCountersThatSayNothing(t *testing.T) {
	for _, c := range []struct {
		file, text string
		of         func(*Sample) Reading
		why        string
	}{
		{"proc/stat", "", func(s *Sample) Reading { return s.Busy }, "/proc/stat is not as expected"},
		{"proc/stat", "cpu0 1 2 x 4\ncpu1 1 2 3 4\n", func(s *Sample) Reading { return s.Idle }, "/proc/stat is not as expected"},
		{"proc/self/stat", "42 (x", func(s *Sample) Reading { return s.OurCPU }, "/proc/self/stat is not as expected"},
		{"proc/pressure/io", "full total=1\n", func(s *Sample) Reading { return s.PressureIO }, "/proc/pressure/io is not as expected"},
		{"proc/self/io", "", func(s *Sample) Reading { return s.OurRead }, "/proc/self/io is not as expected"},
		{"proc/diskstats", "8 0 sda 1 2 3\n", func(s *Sample) Reading { return s.DiskRead }, "/proc/diskstats lists no disk of /sys/block"},
		{"sys/fs/cgroup/work.slice/cpu.stat", "", func(s *Sample) Reading { return s.Throttled }, "/sys/fs/cgroup/work.slice/cpu.stat is not as expected"},
	} {
		root := t.TempDir()
		if err := os.CopyFS(root, os.DirFS("testdata/v2")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, c.file), []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		s := newSampler(os.DirFS(root), []int{0, 1})
		sample := s.Sample()
		s.Close()
		if r := c.of(&sample); r.Known || r.Why != c.why {
			t.Errorf("%s %q: %+v, want %q", c.file, c.text, r, c.why)
		}
	}
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("testdata/v2")); err != nil {
		t.Fatal(err)
	}
	for _, tid := range []string{"42", "43"} {
		if err := os.WriteFile(filepath.Join(root, "proc/self/task", tid, "schedstat"), []byte("0 0 0\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := newSampler(os.DirFS(root), []int{0, 1})
	defer s.Close()
	if r := s.Sample().Waiting; r.Known || !strings.Contains(r.Why, "counts nothing") {
		t.Errorf("%+v", r)
	}
}

// TestThisHost samples the machine that the test runs on: whatever it has, our
// own work is counted.
func TestThisHost(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc")
	}
	s := New()
	defer s.Close()
	prev := s.Sample()
	used := func() int64 {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return u.Utime.Nano()
	}
	for start, before := time.Now(), used(); time.Since(start) < 200*time.Millisecond || used()-before < 100e6; { // some ticks of the kernel
	}
	cur := s.Sample()
	for name, r := range between(t, prev, cur) {
		switch {
		case r.Known && (r.Value < 0 || math.IsNaN(r.Value)), !r.Known && r.Why == "":
			t.Errorf("%s %+v", name, r)
		case name == "CPUOurs" && !(r.Value > 0):
			t.Errorf("200 ms of work used no core: %+v", r)
		}
	}
}

// FuzzSample: whatever the kernel's files say, a reading is a number or says why not.
func FuzzSample(f *testing.F) {
	sys := os.DirFS("testdata/v2")
	text := func(name string) string { return read(sys, name) }
	f.Add(text("proc/self/stat"), text("proc/stat"), text("proc/diskstats"), text("proc/pressure/cpu"), text("proc/self/io"), text("proc/self/task/42/schedstat"), text("sys/fs/cgroup/work.slice/cpu.stat"))
	f.Add("42 (x", "cpu0 1 2 x 4\n", "8 0 sda 1 2 3\n", "some total=1e400", "read_bytes: -1", "0 0 0", "nr_periods NaN")
	f.Fuzz(func(t *testing.T, stat, cpu, disk, pressure, io, sched, cgroup string) {
		s := newSampler(tree(map[string]string{
			"proc/self/stat": stat, "proc/stat": cpu, "proc/diskstats": disk, "proc/pressure/cpu": pressure, "proc/pressure/io": pressure,
			"proc/self/io": io, "proc/self/task/42/schedstat": sched, "sys/block/sda/device/model": "x",
			"proc/self/cgroup": "0::/job\n", "proc/self/mountinfo": mountV2, "sys/fs/cgroup/job/cpu.max": "1 2", "sys/fs/cgroup/job/cpu.stat": cgroup,
		}), []int{0})
		defer s.Close()
		a := s.Sample()
		b := s.Sample()
		b.At = a.At.Add(time.Second)
		for _, r := range between(t, a, b) {
			if r.Known == (r.Why != "") || r.Known && !(r.Value >= 0) {
				t.Fatalf("%+v", r)
			}
		}
	})
}

// BenchmarkSample is a sample of a process with 100 more threads.
func BenchmarkSample(b *testing.B) {
	quit := make(chan struct{})
	defer close(quit)
	ready := make(chan struct{})
	for range 100 {
		go func() {
			runtime.LockOSThread() // not unlocked: the thread ends with its goroutine
			ready <- struct{}{}
			<-quit
		}()
	}
	for range 100 {
		<-ready
	}
	s := New()
	defer s.Close()
	s.Sample()
	b.ReportAllocs()
	for b.Loop() {
		s.Sample()
	}
	b.ReportMetric(float64(len(s.threads)), "threads")
}
