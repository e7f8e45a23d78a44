package host

import (
	"math"
	"runtime/metrics"
	"time"
)

// WakeLatency is how long a thread may take from waking up to running where cores are free. A
// thread that takes longer had no core.
const WakeLatency = 100 * time.Microsecond

// otherThreads is how many threads may run besides the loader's workers and the device's threads.
// They are the step loop's, the device streams', the collector's, the screen's or printer's, the
// gauges', the session writer's and the garbage collector's.
const otherThreads = 8

// Processors returns how many threads may be ready to run at the same time with so many workers.
// With a GOMAXPROCS of that many, a goroutine that can run has a thread, which waits for a core in
// the kernel, where that is counted. With fewer, it may wait in Go's scheduler.
func Processors(workers int) int { return workers + Cores() + otherThreads }

// Scheduler tells how long goroutines waited in Go's scheduler. One goroutine may use it.
type Scheduler struct{ sample [1]metrics.Sample }

// tracked is how many waits of a goroutine there are for each one that Go's runtime measures
// (gTrackingPeriod in runtime/runtime2.go).
const tracked = 8

// Waited returns how long all goroutines together were ready to run without running since the
// process began, in ns. It is an estimate, since Go measures one wait in eight. It includes the
// time in which a thread that was woken for a goroutine had no core.
func (s *Scheduler) Waited() int64 {
	s.sample[0].Name = "/sched/latencies:seconds"
	metrics.Read(s.sample[:])
	if s.sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return 0
	}
	h := s.sample[0].Value.Float64Histogram()
	sum := 0.0
	for i, n := range h.Counts {
		lo, hi := h.Buckets[i], h.Buckets[i+1]
		if n == 0 || math.IsInf(lo, 0) {
			continue
		}
		if math.IsInf(hi, 0) {
			hi = lo
		}
		sum += float64(n) * (lo + hi) / 2
	}
	return int64(sum * tracked * 1e9)
}
