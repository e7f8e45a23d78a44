//go:build linux

package bridge

import (
	"iter"
	"time"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/trace"
)

// How often workers are looked at for a lock that they wait for, and how many of them: a look at
// one takes 10 to 60 us.
const (
	looksEvery = 100 * time.Millisecond
	looksAt    = 16
)

// looks are what was seen of workers and locks since that was last told.
type looks struct {
	last    time.Time
	n       int
	waiting int // workers, over all looks
}

// look looks whether the main process's workers wait for a lock that processes share. One worker
// waits for no other.
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

// tell records how many workers waited for a lock on average, and begins anew.
func (l *looks) tell(r *trace.Recorder) {
	if l.n > 0 {
		r.Gauge(trace.GaugeLockWaiting, float64(l.waiting)/float64(l.n))
	}
	l.n, l.waiting = 0, 0
}
