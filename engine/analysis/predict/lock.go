package predict

import (
	"math"

	"dev.gpustall/engine/trace"
)

// Lock says how much workers wait for a lock that they share. Samples of their processes show it.
type Lock struct {
	Known   bool
	Workers float64    // workers that wait for a lock which processes share, on average
	share   [3]float64 // share of the workers' blocked time in which they wait for it (bad luck, likely, good luck)
}

// looking is the error of the share, because workers are sampled seldom.
const looking = 0.05

// lockOf reads the samples of the lock in some steps. blocked is how many workers were blocked
// then, on average.
func lockOf(s *trace.Snapshot, t *trace.Tally, blocked float64) (l Lock) {
	mean, _, n := s.GaugeOver(trace.GaugeLockWaiting, t.From, t.To)
	if l.Known, l.Workers = n > 0, mean; mean <= 0 || blocked <= 0 {
		return l
	}
	squares := 0.0
	for _, p := range s.Gauges[trace.GaugeLockWaiting] {
		if p.T >= t.From && p.T <= t.To {
			squares += (p.V - mean) * (p.V - mean)
		}
	}
	off := looking + z*math.Sqrt(squares)/float64(n)/blocked
	of := mean / blocked
	l.share = [3]float64{min(1, of+off), min(1, of), max(0, min(1, of)-off)}
	return l
}

// longer returns how many times longer a batch blocks its worker with b workers than with
// a workers. A worker that waits for the lock waits for each of the others in turn.
func (l *Lock) longer(a, b int, luck luck) float64 {
	if a < 2 {
		return 1
	}
	return max(0.02, 1+luck.of(onLock, l.share)*float64(b-a)/float64(a-1))
}
