package trace

import (
	"fmt"
	"slices"
)

// Rank is how the loop of one process of a distributed training did over some time.
type Rank struct {
	Rank  int
	Steps int64
	Wait  int64 // ns of Time that it waited for data
	Time  int64 // ns, pauses between epochs and validation included
}

// Data is the share of its time that it waited for data, 0 to 1.
func (k *Rank) Data() float64 { return float64(k.Wait) / float64(max(1, k.Time)) }

// Step is how long a step took it on average, in ns.
func (k *Rank) Step() int64 { return k.Time / max(1, k.Steps) }

// rankGauges are what a rank is recorded as: counts since its first batch.
func rankGauges(rank int) (steps, wait, time string) {
	name := fmt.Sprintf("rank_%d_", rank)
	return name + "steps", name + "wait_ns", name + "time_ns"
}

// Rank records how a rank did since its first batch.
func (r *Recorder) Rank(k Rank) {
	steps, wait, time := rankGauges(k.Rank)
	r.Gauge(steps, float64(k.Steps))
	r.Gauge(wait, float64(k.Wait))
	r.Gauge(time, float64(k.Time))
}

// Ranks are how the ranks of a distributed training did from one moment to another, in
// order; none where it is not distributed.
func (s *Snapshot) Ranks(from, to int64) (out []Rank) {
	for name := range s.Gauges {
		var n int
		if _, err := fmt.Sscanf(name, "rank_%d_steps", &n); err != nil {
			continue
		}
		steps, wait, time := rankGauges(n)
		if steps != name {
			continue
		}
		k := Rank{n, s.grown(steps, from, to), s.grown(wait, from, to), s.grown(time, from, to)}
		if k.Steps > 0 {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b Rank) int { return a.Rank - b.Rank })
	return out
}

// grown is by how much a gauge that counts grew from one moment to another.
func (s *Snapshot) grown(name string, from, to int64) int64 {
	var before, after float64
	for _, p := range s.Gauges[name] {
		if p.T < from {
			before = p.V
		}
		if p.T <= to {
			after = p.V
		}
	}
	return int64(after - before)
}
