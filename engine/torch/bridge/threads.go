//go:build linux

package bridge

import (
	"iter"
	"slices"
	"time"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/trace"
)

// pools is what workers' threads beside their main ones did: those of OpenCV or OpenMP, for instance.
type pools struct {
	at   time.Time
	last map[int]map[int]time.Duration // on a core, by worker and thread
}

// tell records how many cores they used since it was last asked. A few workers stand for all.
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

// beside is how long a worker's threads were on a core between two looks, without its main one and
// the busiest of the others, which may be the one that sends its batches.
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
