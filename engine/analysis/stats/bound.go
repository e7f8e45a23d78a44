package stats

import "math"

const (
	// alpha is the probability that an interval misses the truth at any look.
	alpha = 0.05

	// scale is the size of the differences that the bound finds soonest. It is the
	// standard deviation of the mixture, in the logarithm of the ratio.
	scale = 0.10
)

// halfWidth returns half the width of a time-uniform 95 % confidence interval: one that holds at
// every look. variance is the variance of the estimate now. The estimate is looked at again and
// again, while more steps make the variance smaller.
//
// It is Robbins' normal mixture, two-sided (Howard, Ramdas, McAuliffe and Sekhon, Time-uniform,
// nonparametric, nonasymptotic confidence sequences, Annals of Statistics 49, 2021, section 3.2).
// Here the bound is written for the estimate, and there for the sum. With t = 1/variance as
// intrinsic time it is
//
//	sqrt(2 (t r² + 1) / (t² r²) · log(sqrt(t r² + 1) / alpha)),  r = scale.
//
// However often one looks, the truth leaves the interval at some look in at most alpha of
// all runs.
//
// For the mean of correlated observations, whose variance is estimated, this holds in the limit:
// for looks that begin after a burn-in. Missing asks for that burn-in. See Waudby-Smith, Arbour,
// Sinha, Kennedy and Ramdas, Time-uniform central limit theory and asymptotic confidence sequences,
// Annals of Statistics 52, 2024. See also Bibaut, Kallus and Lindon, Near-optimal, near-calibrated,
// non-parametric sequential tests and confidence sequences with possibly dependent observations,
// 2024.
//
// A difference of two means is such an estimate. As either side grows, 1/variance grows and is its
// information (Jennison and Turnbull, Group Sequential Methods, 2000, section 3.1).
//
// The half width is about 3.2 standard deviations. For an interval of a single look it would
// be 1.96.
func halfWidth(variance float64) float64 {
	if variance <= 0 {
		return 0
	}
	r := scale * scale / variance
	return math.Sqrt(2 * variance * (1 + 1/r) * math.Log(math.Sqrt(1+r)/alpha))
}
