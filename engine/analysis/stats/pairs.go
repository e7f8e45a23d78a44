package stats

import (
	"math"
	"time"

	"dev.gpustall/engine/base/units"
)

// Pair is two settings measured beside each other in four quarters of equal length: one setting,
// the other, the other again, the first again. A drift in a straight line affects both alike. A and
// B hold all steps of either setting.
//
// Which setting is the outer one is drawn anew for each pair. So if the settings make no
// difference, the result of a pair is as likely to lie above 0 as equally far below. This holds
// whatever the host does meanwhile and however long its states last. The answer rests on that alone
// (Fisher, The Design of Experiments, 1935, section 21).
type Pair struct{ A, B Block }

// The shortest quarter, and the fewest pairs for an answer: six pairs have one sign by chance in 3
// of 100 cases.
const (
	leastQuarter      = time.Second
	leastQuarterSteps = 10
	leastPairs        = 6
)

// Quarter returns how long a quarter of a pair is to last, where m was measured under one of the
// settings. It is twice the host's correlation time, so that both settings meet the same host, but
// short enough for ten pairs within the budget.
func Quarter(m Stretch, h History, budget time.Duration) time.Duration {
	least, memory := leastQuarter, h.Longest
	if m.Steps > 0 {
		least = max(least, leastQuarterSteps*m.Active/time.Duration(m.Steps))
	}
	if m.Enough() {
		memory = max(memory, min(m.Step.Correlation, m.Active/8)) // a short stretch cannot show a long correlation
	}
	return max(least, min(2*memory, budget/(4*10)))
}

// Paired relates B to A by pairs. It may be called after each pair: of 100 comparisons of equal
// settings at most 5 ever say different.
func Paired(pairs []Pair, margin float64) Comparison {
	c := Comparison{
		Margin:     margin,
		Throughput: paired(pairs, func(b *Block) int64 { return b.Active }, margin),
		Busy:       paired(pairs, func(b *Block) int64 { return b.Busy }, margin),
		Pairs:      len(pairs),
	}
	c.Throughput.invert()
	return c
}

// Turns is the name of an A/B test, in which two settings take turns.
const Turns = "A/B test"

// ByTurns says what an A/B test rests on, "7 pairs of an A/B test"; empty for a comparison of two
// stretches.
func (c *Comparison) ByTurns() string {
	if c.Pairs == 0 {
		return ""
	}
	return units.Counted(c.Pairs, "pair", "pairs") + " of an " + Turns
}

// paired compares one of the times for a sample.
//
// The logarithms of the pairs' ratios are assumed to be normal, with unknown mean and variance. The
// time-uniform interval of their mean is that of the t-statistic (Lai, On confidence sequences,
// Annals of Statistics 4, 1976; Wang and Ramdas, Anytime-valid t-tests and confidence sequences for
// Gaussian means with unknown variance, 2023). For other variables that are symmetric about their
// centre, the statistic has shorter tails from a few values on (Efron, Student's t-test under
// symmetry conditions, JASA 64, 1969).
func paired(pairs []Pair, of func(*Block) int64, margin float64) Change {
	n := float64(len(pairs))
	c := Change{Samples: [2]float64{n, n}}
	if len(pairs) < leastPairs {
		c.Missing = Missing{What: Pairs, Have: n, Want: leastPairs}
		return c
	}
	var mean, squares float64 // of the logarithms so far; squares are around the mean
	var took time.Duration
	for i := range pairs {
		a, b := &pairs[i].A, &pairs[i].B
		if of(a) <= 0 || of(b) <= 0 || a.Samples <= 0 || b.Samples <= 0 {
			c.Missing = Missing{What: Measurement}
			return c
		}
		log := math.Log(float64(of(b)) / float64(b.Samples) * float64(a.Samples) / float64(of(a)))
		took += time.Duration(a.Active + b.Active)
		off := log - mean
		mean += off / float64(i+1)
		squares += off * (log - mean)
	}
	half := halfWidthT(n, max(squares, n*resolution))
	c.Ratio, c.Lo, c.Hi, c.Drifted = math.Exp(mean), math.Exp(mean-half), math.Exp(mean+half), 1
	c.decide(mean, half, margin)
	if c.Missing.What == Precision {
		c.Missing.More = later(took, 1, 1, mean, half, margin)
	}
	return c
}

// expected sets the size of the differences that halfWidthT finds soonest. Their variance is
// expected times the variance of a pair.
const expected = 5

// halfWidthT returns half the width of a time-uniform 95 % confidence interval: one that holds at
// every look. The interval is for the mean of n normal variables, whose squares around their mean
// add up to squares. It is infinite while n is too small.
//
// The test of a mean compares its likelihood with a mixture of others. In the mixture the mean is
// normal around the tested one, with expected times the variance. The scale has the right Haar
// prior. With c² = 1/expected the ratio of the likelihoods is
//
//	sqrt(c² / (n + c²)) · ((squares + n d²) / (squares + n d² c² / (n + c²)))^(n/2)
//
// for a mean that is d away from the tested one. The interval is where this ratio is below 1/alpha.
func halfWidthT(n, squares float64) float64 {
	const c2 = 1.0 / expected
	k := math.Pow((n+c2)/(c2*alpha*alpha), 1/n)
	left := 1 - k*c2/(n+c2)
	if left <= 0 {
		return math.Inf(1)
	}
	return math.Sqrt(squares * (k - 1) / (n * left))
}
