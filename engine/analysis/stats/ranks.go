package stats

import (
	"math"
	"slices"
)

// tail is the probability that each end of an interval may be beyond the truth.
const tail = 0.025

// mostRanked is how many steps of a side are ranked. Counting all orders of more steps takes long and brings
// little.
const mostRanked = 60

// Ranked relates the rate of a few steps of B to the rate of A, as the ratio of their median times. The
// interval is of the ratio of a step of A to a step of B. It comes from the exact distribution of Mann and
// Whitney's U. Ranked assumes no distribution of the times. It assumes that steps do not depend on each
// other, and that nobody waits for an answer while they arrive, as in a profiler's trace. With under four
// steps a side there is no interval of 95 %.
func Ranked(a, b []float64, margin float64) Change {
	a, b = a[max(0, len(a)-mostRanked):], b[max(0, len(b)-mostRanked):]
	c := Change{Samples: [2]float64{float64(len(a)), float64(len(b))}}
	skip := outside(len(a), len(b))
	if skip == 0 {
		c.Missing = Missing{What: Steps, Have: c.Samples[0], Want: 4}
		if len(b) < len(a) {
			c.Missing.Side, c.Missing.Have = 1, c.Samples[1]
		}
		return c
	}
	ratios := make([]float64, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			if x <= 0 || y <= 0 {
				c.Missing = Missing{What: Measurement}
				return c
			}
			ratios = append(ratios, x/y)
		}
	}
	slices.Sort(ratios)
	n := len(ratios)
	c.Ratio, c.Drifted = Median(a)/Median(b), 1
	c.Lo, c.Hi = min(c.Ratio, ratios[skip-1]), max(c.Ratio, ratios[n-skip])
	edge := math.Log1p(margin)
	switch lo, hi := math.Log(c.Lo), math.Log(c.Hi); {
	case lo > -edge && hi < edge:
		c.Answer = Same
	case lo > 0 || hi < 0:
		c.Answer = Different
	default:
		c.Missing = Missing{What: Precision, Have: math.Expm1((hi - lo) / 2), Want: margin}
	}
	return c
}

// Median returns the middle value. Of an even number of values it returns the lower of
// the two in the middle.
func Median(of []float64) float64 {
	of = slices.Sorted(slices.Values(of))
	return of[(len(of)-1)/2]
}

// outside returns which of the ratios, counted from either end, is the end of the interval. Of all
// arrangements of n and m values, at most the part tail has a smaller U. outside returns 0 where no interval
// is that sure.
func outside(n, m int) (k int) {
	if n == 0 || m == 0 {
		return 0
	}
	// ways[j][u] is the number of arrangements of i values of A and j of B in which u pairs are in the other order.
	ways := make([][]float64, m+1)
	for j := range ways {
		ways[j] = make([]float64, n*m+1)
		ways[j][0] = 1
	}
	for i := 1; i <= n; i++ {
		for j := 1; j <= m; j++ {
			for u := n * m; u >= 0; u-- { // the last value is of A and has all j of B before it, or it is of B
				before := 0.0
				if u >= j {
					before = ways[j][u-j]
				}
				ways[j][u] = before + ways[j-1][u]
			}
		}
	}
	all, sum := 0.0, 0.0
	for _, w := range ways[m] {
		all += w
	}
	for k < n*m/2 && sum+ways[m][k] <= tail*all {
		sum += ways[m][k]
		k++
	}
	return k
}
