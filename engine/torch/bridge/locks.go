//go:build linux

package bridge

import (
	"iter"
	"time"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/trace"
)

// How often the bridge looks whether workers wait for a lock, and at how many workers. A look at one
// takes 10 to 60 us.
const (
	looksEvery = 100 * time.Millisecond
	looksAt    = 16
)

// looks counts the workers that were seen to wait for a lock, since the last gauge.
type looks struct {
	last    time.Time
	n       int
	waiting int // workers, over all looks
}

// look counts the workers that wait for a lock that processes share. A single worker cannot wait for
// another one.
func (l *looks) look(pids iter.Seq[int]) {
	now := time.Now()
	if now.Sub(l.last) < looksEvery {
		return
	}
	l.last = now
	workers, waiting := 0, 0
	for pid := range pids {
		if workers == looksAt {
			break
		}
		if waits, known := host.AwaitsLock(pid); known {
			workers++
			if waits {
				waiting++
			}
		}
	}
	if workers < 2 {
		return
	}
	l.n++
	l.waiting += waiting
}

// tell records how many workers waited for a lock on average, and starts counting again.
func (l *looks) tell(r *trace.Recorder) {
	if l.n > 0 {
		r.Gauge(trace.GaugeLockWaiting, float64(l.waiting)/float64(l.n))
	}
	l.n, l.waiting = 0, 0
}
