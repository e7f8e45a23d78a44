package cpu

import (
	"bufio"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// adviseHuge asks for huge pages where a mapping is large enough for one. Activations are read
// once from end to end, so TLB misses cost time.
func adviseHuge(b []byte) {
	if len(b) >= 4<<20 {
		_ = syscall.Madvise(b, syscall.MADV_HUGEPAGE) // a kernel without it runs as well with small pages
	}
}

// field returns the first value of a "name : value" line in a /proc file.
func field(file, name string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		k, v, ok := strings.Cut(sc.Text(), ":")
		if ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func meminfo(name string) int64 {
	kib, err := strconv.ParseInt(strings.TrimSuffix(field("/proc/meminfo", name), " kB"), 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}

func modelName() string {
	if s := field("/proc/cpuinfo", "model name"); s != "" {
		return s
	}
	return runtime.GOARCH
}

func totalMemory() int64 { return meminfo("MemTotal") }

// availableMemory returns the host's free memory. It asks the system for large allocations only;
// small ones always fit.
func availableMemory(n int) int64 {
	if n < 64<<20 {
		return math.MaxInt64
	}
	if m := meminfo("MemAvailable"); m > 0 {
		return m
	}
	return math.MaxInt64
}
