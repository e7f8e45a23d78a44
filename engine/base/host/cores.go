// Package host says what the machine lets this process use, by affinity and cgroups (control
// groups, version 1 and 2). It also says what the machine was doing while a training ran. That is
// the cores that this process and others used, the run-queue wait of its threads, pressure,
// throttling, faults and disks.
//
// Everything is read from /proc and /sys. What a machine does not tell, for example with an older
// kernel or in a container, is unknown with the reason, and never 0.
package host

import (
	"math"
	"os"
	"runtime"
	"sync"
)

// Cores is how many threads can compute at the same time. It is the number of cpus that the process
// may run on, or fewer where its cgroup allows less time. It is looked up once. GOMAXPROCS is
// another number: how many threads the Go runtime lets run, which may be more than there are cores.
var Cores = sync.OnceValue(func() int {
	return cores(len(Affinity()), Quota())
})

// cores rounds a quota up, since part of a core can be used too. An affinity of 0 is unknown.
func cores(affinity int, quota float64) int {
	if affinity == 0 {
		affinity = runtime.NumCPU()
	}
	if quota > 0 && quota < float64(affinity) {
		return int(math.Ceil(quota))
	}
	return affinity
}

// Quota returns how many cores' time the process's cgroup allows, for example 1.5. It is 0 when
// there is no limit, or it is not known.
func Quota() float64 {
	q, _ := quota(os.DirFS("/"))
	return q
}
