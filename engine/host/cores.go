// Package host knows what the machine lets this process use.
package host

import (
	"math"
	"os"
	"runtime"
	"sync"
)

// Cores is how many threads can compute at the same time: the cpus that the process may
// run on, or fewer where its cgroup allows less time than they have. It is looked up
// once. GOMAXPROCS is another number: how many threads the Go runtime lets run, which
// may be more than there are cores.
var Cores = sync.OnceValue(func() int {
	return cores(len(Affinity()), Quota())
})

// cores rounds a quota up, since part of a core can be kept busy too. affinity of 0 is
// unknown.
func cores(affinity int, quota float64) int {
	if affinity == 0 {
		affinity = runtime.NumCPU()
	}
	if quota > 0 && quota < float64(affinity) {
		return int(math.Ceil(quota))
	}
	return affinity
}

// Quota is how many cores' time the process's cgroup allows, 1.5 say; 0 when it does not
// limit it or that is not known.
func Quota() float64 {
	return quota(os.DirFS("/"))
}
