//go:build linux

package bridge

import (
	"iter"
	"slices"
	"time"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/trace"
)

// pools measures what workers' other threads use, for instance those of OpenCV or OpenMP.
type pools struct {
	at   time.Time
	last map[int]map[int]time.Duration // time on a core, by worker and thread
}

// tell records how many cores these threads used since the last call. A few workers stand for all.
func (p *pools) tell(pids iter.Seq[int], recorder *trace.Recorder) {
	now, seen := time.Now(), map[int]map[int]time.Duration{}
	var used time.Duration
	workers, known := 0, 0
	for pid := range pids {
		if workers++; len(seen) == weighed {
			continue
		}
		times := host.ThreadTimes(pid)
		seen[pid] = times
		if last := p.last[pid]; len(last) > 0 && len(times) > 0 {
			known++
			used += beside(pid, last, times)
		}
	}
	if known > 0 {
		each := float64(used) / float64(now.Sub(p.at)) / float64(known)
		recorder.Gauge(trace.GaugeWorkerThreads, each*float64(workers))
	}
	p.at, p.last = now, seen
}

// beside returns how long a worker's threads were on a core between two looks. It leaves out the main
// thread and the busiest other one, which may be the thread that sends batches.
func beside(pid int, before, after map[int]time.Duration) (sum time.Duration) {
	var each []time.Duration
	for tid, t := range after {
		if tid != pid {
			each = append(each, t-before[tid])
		}
	}
	if len(each) < 2 {
		return 0
	}
	for _, t := range each {
		sum += t
	}
	return sum - slices.Max(each)
}
