package host

import (
	"math"
	"runtime/metrics"
	"time"
)

// WakeLatency is how long a thread that is woken may take until it runs where cores are
// free. One that takes longer had none.
const WakeLatency = 100 * time.Microsecond

// otherThreads are those that may run beside the loader's workers and the device's
// threads: step loop, the device's streams, collector, screen or printer, gauges, the
// session file's writer, and the garbage collector's.
const otherThreads = 8

// Processors is how many threads may be ready to run at the same time with so many
// workers. With a GOMAXPROCS of that many a goroutine that can run has a thread, which
// waits for a core in the kernel, where it is counted; with fewer it may wait in Go's
// scheduler.
func Processors(workers int) int { return workers + Cores() + otherThreads }

// Scheduler tells how long goroutines waited in Go's scheduler. One goroutine may use it.
type Scheduler struct{ sample [1]metrics.Sample }

// tracked is how many waits of a goroutine Go's runtime leaves out for each that it
// measures (gTrackingPeriod in runtime/runtime2.go).
const tracked = 8

// Waited is how long all goroutines together have been ready to run without running, in
// ns, since the process began: an estimate, since Go measures one wait in eight. That
// a thread has no core is part of it where the thread was woken for the goroutine.
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
