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
	loading Work       // a batch
	step    float64    // ns of a step
}

// looking is the error of the share, because workers are sampled seldom.
const looking = 0.05

// lockOf reads the samples of the lock in some steps, which take so many ns each.
func lockOf(s *trace.Snapshot, t *trace.Tally, w Work, step float64) Lock {
	l := Lock{loading: w, step: step}
	mean, _, n := s.GaugeOver(trace.GaugeLockWaiting, t.From, t.To)
	blocked := w.Blocked / step // workers, on average
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

// regular corrects how long a worker holds the lock. The queue supposes irregular times, and so finds the shortest one. With
// regular times, workers wait as long only if somebody always holds the lock. regular is the part of the way to that time.
var regular = [3]float64{0.67, 0.33, 0}

// longer returns how many times longer a batch blocks its worker with b workers than with a workers. One worker at a time
// has the lock. How long the workers wait for it tells how long each holds it.
func (l *Lock) longer(a, b int, luck luck) float64 {
	w := &l.loading
	waits := luck.of(onLock, l.share) * w.Blocked
	if a < 2 || waits <= 0 {
		return 1
	}
	rest := w.Core + w.Waiting + w.Blocked - waits // in the lock, or at something else
	idle := max(0, float64(a)*l.step-rest-waits)
	least, most := 0.0, rest
	for range 30 {
		if held := (least + most) / 2; queued(a, rest+idle-held, held) < waits {
			least = held
		} else {
			most = held
		}
	}
	held := most + luck.of(onLock, regular)*max(0, min(l.step, rest)-most)
	then := waits + queued(b, rest-held, held) - queued(a, rest-held, held)
	if b > a {
		then = max(then, float64(b)*held-rest)
	}
	return max(0.02, 1+(max(0, then)-waits)/w.Blocked)
}

// queued returns how long each of n workers waits for a lock. Each holds it for held ns, and then does without it for others
// ns. This is the mean value analysis of a closed queue (Reiser and Lavenberg, 1980).
func queued(n int, others, held float64) float64 {
	there, takes := 0.0, held
	for k := 1; k <= n; k++ {
		takes = held * (1 + there)
		there = float64(k) * takes / (others + takes)
	}
	return takes - held
}
