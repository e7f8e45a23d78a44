package stats

import (
	"math"

	"dev.gpustall/engine/base/units"
)

// Runs holds several configurations, each measured in several runs that took turns. One run of
// each configuration makes a round.
//
// Some things vary from run to run: the page cache, neighbours, clock rates, where memory lies. No
// single run shows that, so its interval is too narrow for what the next run will do. With two
// rounds or more the spread between runs is measured. It is the spread of the logarithms of the
// rates that configuration and round do not explain. This is the residual of a two-way analysis of
// variance without replication (Montgomery, Design and Analysis of Experiments, chapter 4,
// randomized blocks). The spread is assumed to be the same for all configurations, because two or
// three runs of one configuration say next to nothing about it.
//
// An interval is the wider of two: the time-uniform interval within the runs, and Student's
// interval between them. The number of rounds is chosen beforehand, so the latter need not be
// time-uniform. With one round there is only the first. If the runs were too short for the first to
// say anything, only the rounds count. Then it is Student's t of the logarithm of the ratio, one
// pair a round, which assumes only that rounds are alike.
type Runs struct {
	rounds  [][]Stretch // by configuration, then by round; a missing run has no Steps
	history History
	pooled  []Stretch
	spread  [2]float64 // variance of log(Mean) of a run: of step time, and of busy time
	free    int        // degrees of freedom of the spread; 0 when it is not known
}

// NewRuns compares the stretches of each configuration, by round. A run that was not measured
// has a stretch without steps.
func NewRuns(of [][]Stretch) *Runs {
	r := &Runs{rounds: of, pooled: make([]Stretch, len(of))}
	most := 0
	for i, rounds := range of {
		for _, s := range rounds {
			if s.Steps == 0 {
				continue
			}
			r.history.Learn(s)
			if r.pooled[i].Steps == 0 {
				r.pooled[i] = s
			} else {
				r.pooled[i] = pool(&r.pooled[i], &s)
			}
		}
		most = max(most, len(rounds))
	}
	r.vary(most)
	return r
}

// vary measures the spread between runs, over the configurations that have all rounds.
func (r *Runs) vary(rounds int) {
	var whole [][]Stretch
	for _, of := range r.rounds {
		if len(of) == rounds && count(of) == rounds {
			whole = append(whole, of)
		}
	}
	n := len(whole)
	if rounds < 2 || n < 1 {
		return
	}
	r.free = (n - 1) * (rounds - 1)
	byRound := n > 1 // a single configuration cannot tell a round's effect from chance
	if !byRound {
		r.free = rounds - 1
	}
	for q, of := range []func(*Stretch) float64{func(s *Stretch) float64 { return s.Step.Mean }, func(s *Stretch) float64 { return s.Busy.Mean }} {
		rows, columns, all := make([]float64, n), make([]float64, rounds), 0.0
		logs := make([][]float64, n)
		for i := range whole {
			logs[i] = make([]float64, rounds)
			for j := range whole[i] {
				v := math.Log(max(of(&whole[i][j]), 1e-9))
				logs[i][j] = v
				rows[i] += v / float64(rounds)
				columns[j] += v / float64(n)
				all += v / float64(n*rounds)
			}
		}
		sum := 0.0
		for i := range logs {
			for j, v := range logs[i] {
				e := v - rows[i]
				if byRound {
					e += all - columns[j]
				}
				sum += e * e
			}
		}
		r.spread[q] = sum / float64(r.free)
	}
}

// count returns how many of the runs were measured.
func count(runs []Stretch) (n int) {
	for i := range runs {
		if runs[i].Steps > 0 {
			n++
		}
	}
	return n
}

// Rounds returns how many runs of a configuration were measured.
func (r *Runs) Rounds(i int) int { return count(r.rounds[i]) }

// Between reports whether it is known how much runs differ. With one round it is not known. Then
// an interval is for the runs that were made, not for the next one.
func (r *Runs) Between() bool { return r.free > 0 }

// Rate returns the samples a second of a configuration over all its runs. The interval leaves out
// what moved all configurations of a round alike. There is none of two runs, which may agree by chance, or if the
// runs differ so much that it would say nothing.
func (r *Runs) Rate(i int) units.Estimate {
	e := r.pooled[i].Rate()
	n := count(r.rounds[i])
	if r.free == 0 || n < 2 || math.IsNaN(e.Value) {
		return e
	}
	between := student(r.free) * math.Sqrt(r.spread[0]/float64(n))
	known := e.Lo <= e.Hi && e.Hi < vague*e.Lo
	switch {
	case n == 2, 2*between >= math.Log(vague):
		return units.Estimate{Value: e.Value, Lo: math.NaN(), Hi: math.NaN()}
	case !known || between > math.Log(e.Hi/e.Value):
		return around(e.Value, between)
	}
	return e
}

// Compare relates configuration b to a.
func (r *Runs) Compare(a, b int, margin float64) Comparison {
	one, other := r.pooled[a], r.pooled[b]
	na, nb := count(r.rounds[a]), count(r.rounds[b])
	if na == nb && na > 1 { // they took turns, so a drift moved both alike
		other.Centre = one.Centre
	}
	c := Compare(one, other, r.history, margin)
	if r.free == 0 || na == 0 || nb == 0 {
		return c
	}
	for q, of := range []*Change{&c.Throughput, &c.Busy} {
		of.widen(student(r.free)*math.Sqrt(r.spread[q]*(1/float64(na)+1/float64(nb))), margin)
	}
	if !c.Throughput.Tells() {
		r.byRounds(&c.Throughput, b, a, func(s *Stretch) *Level { return &s.Step }, margin)
	}
	if !c.Busy.Tells() {
		r.byRounds(&c.Busy, a, b, func(s *Stretch) *Level { return &s.Busy }, margin)
	}
	return c
}

// byRounds compares a and b by their rounds, and replaces c where that gives a narrower interval.
// For each round it takes the logarithm of b's mean over a's. The interval is for the mean of
// these logarithms.
//
// Two rounds may agree by chance. So the interval is at least as wide as the interval from the
// steps of all runs, with the correlation that each run shows by itself. Where steps or time are
// missing, byRounds leaves c as it is.
func (r *Runs) byRounds(c *Change, a, b int, of func(*Stretch) *Level, margin float64) {
	if c.Missing.What != Windows && c.Missing.What != Precision {
		return
	}
	n, sum, squares := 0.0, 0.0, 0.0
	for j := range min(len(r.rounds[a]), len(r.rounds[b])) {
		x, y := of(&r.rounds[a][j]).Mean, of(&r.rounds[b][j]).Mean
		if x > 0 && y > 0 {
			log := math.Log(y / x)
			n, sum, squares = n+1, sum+log, squares+log*log
		}
	}
	if n < 2 {
		return
	}
	mean := sum / n
	half := student(int(n)-1) * math.Sqrt(max(0, squares-n*mean*mean)/(n-1)/n)
	within := of(&r.pooled[a]).error2(r.pooled[a].Blocks) + of(&r.pooled[b]).error2(r.pooled[b].Blocks)
	half = max(half, normal*math.Sqrt(within))
	if c.Ratio > 0 && half >= math.Log(c.Hi/c.Ratio) {
		return
	}
	c.Ratio, c.Lo, c.Hi, c.Missing = math.Exp(mean), math.Exp(mean-half), math.Exp(mean+half), Missing{}
	c.decide(mean, half, margin)
}

// Across relates runs of b to runs of a that were not measured in one sweep. They have no round in
// common, and each has its own spread between runs.
func Across(a, b *Runs, i, j int, margin float64) Comparison {
	h := a.history
	h.Longest = max(h.Longest, b.history.Longest)
	c := Compare(a.pooled[i], b.pooled[j], h, margin)
	na, nb := count(a.rounds[i]), count(b.rounds[j])
	if a.free+b.free == 0 || na == 0 || nb == 0 {
		return c
	}
	free := a.free + b.free
	for q, of := range []*Change{&c.Throughput, &c.Busy} {
		spread := (a.spread[q]*float64(a.free) + b.spread[q]*float64(b.free)) / float64(free)
		of.widen(student(free)*math.Sqrt(spread*(1/float64(na)+1/float64(nb))), margin)
	}
	return c
}

// widen makes the interval of a change reach at least half to either side, in the logarithm,
// and sets the answer that follows.
func (c *Change) widen(half, margin float64) {
	if c.Ratio <= 0 || math.Log(c.Hi/c.Ratio) >= half {
		return
	}
	log, edge := math.Log(c.Ratio), math.Log1p(margin)
	c.Lo, c.Hi = math.Exp(log-half), math.Exp(log+half)
	if c.Answer == Unknown && c.Missing.What != Precision {
		return // what is missing within the runs stays missing
	}
	c.Missing = Missing{}
	switch {
	case math.Abs(log)+half < edge:
		c.Answer = Same
	case math.Abs(log) > half:
		c.Answer = Different
	default:
		c.Answer, c.Missing = Unknown, Missing{What: Precision, Have: math.Expm1(half), Want: margin}
	}
}

// Next returns the interval in which 95 of 100 further values fall, if they come from the same
// normal distribution as these. There must be at least two values.
func Next(values []float64) (lo, hi float64) {
	n, sum, squares := float64(len(values)), 0.0, 0.0
	for _, v := range values {
		sum += v
	}
	mean := sum / n
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	half := student(len(values)-1) * math.Sqrt(squares/(n-1)*(1+1/n))
	return mean - half, mean + half
}

// quantiles are Student's quantiles at 97.5 % for 1 to 10 degrees of freedom.
var quantiles = [...]float64{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228}

// normal is the normal distribution's quantile at 97.5 %.
const normal = 1.959964

// student returns Student's quantile at 97.5 %. Beyond the table it takes the first terms of the
// expansion about the normal quantile (Abramowitz and Stegun, 26.7.5).
func student(free int) float64 {
	if free <= len(quantiles) {
		return quantiles[free-1]
	}
	const z = normal
	n := float64(free)
	return z + (z*z*z+z)/(4*n) + (5*math.Pow(z, 5)+16*z*z*z+3*z)/(96*n*n)
}
