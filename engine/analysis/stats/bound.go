package stats

import "math"

const (
	// alpha is the probability that an interval misses the truth at any look.
	alpha = 0.05

	// scale is the size of the differences that the bound is made to find soonest:
	// the standard deviation of the mixture, in the logarithm of the ratio.
	scale = 0.10
)

// halfWidth is half the width of a time-uniform 95 % confidence interval of an
// estimate that has this variance now and is looked at again and again while more
// steps make the variance smaller.
//
// It is Robbins' normal mixture, two-sided (Howard, Ramdas, McAuliffe and Sekhon,
// Time-uniform, nonparametric, nonasymptotic confidence sequences, Annals of
// Statistics 49, 2021, section 3.2), written for the estimate instead of for the sum:
// with t = 1/variance as intrinsic time,
//
//	sqrt(2 (t r² + 1) / (t² r²) · log(sqrt(t r² + 1) / alpha)),  r = scale,
//
// at any number of looks at most alpha of all runs ever leave the interval. For the
// mean of correlated observations with an estimated variance this holds in the
// limit, for looks that begin after a burn-in (Waudby-Smith, Arbour, Sinha, Kennedy
// and Ramdas, Time-uniform central limit theory and asymptotic confidence sequences,
// Annals of Statistics 52, 2024; Bibaut, Kallus and Lindon, Near-optimal,
// near-calibrated, non-parametric sequential tests and confidence sequences with
// possibly dependent observations, 2024). The burn-in is what Missing asks for. A
// difference of two means is such an estimate: as either side grows, 1/variance grows
// and is its information (Jennison and Turnbull, Group Sequential Methods, 2000,
// section 3.1).
//
// It is about 3.2 standard deviations where a fixed-sample interval has 1.96.
func halfWidth(variance float64) float64 {
	if variance <= 0 {
		return 0
	}
	r := scale * scale / variance
	return math.Sqrt(2 * variance * (1 + 1/r) * math.Log(math.Sqrt(1+r)/alpha))
}
