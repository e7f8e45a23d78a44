package predict

import (
	"math"

	"dev.gpustall/engine/trace"
)

// Lock is what workers wait for each other, as looks at their processes show it.
type Lock struct {
	Known   bool
	Workers float64    // that wait for a lock which processes share, on average
	share   [3]float64 // of the time in which workers are blocked, that they wait for it: if luck is bad, likely, good
}

// looking is how far a share may be off because workers are looked at seldom.
const looking = 0.05

// lockOf looks at the samples of the lock during some steps, in which so many workers were blocked
// on average.
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

// longer is how many times as long a batch blocks its worker with b workers as with a: one that
// waits for a lock waits for each of the others in turn.
func (l *Lock) longer(a, b int, luck luck) float64 {
	if a < 2 {
		return 1
	}
	return max(0.02, 1+luck.of(l.share)*float64(b-a)/float64(a-1))
}
