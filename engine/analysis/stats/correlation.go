package stats

import (
	"math"
	"time"
)

// windows is how many windows of the longest kind fit into a series without overlap
// when its correlation is estimated.
const windows = 8

// spread returns the variance of e around 0, and its inefficiency. The variance has len(e) - fitted
// degrees of freedom. The inefficiency is the integrated autocorrelation time in elements. It is
// below 1 where long elements are followed by short ones, as when batches come in bursts.
//
// The inefficiency is estimated by blocking. The variance of the means of m consecutive elements,
// times m, grows with m until m exceeds the correlation. Its plateau over the variance of single
// elements is the inefficiency (Flyvbjerg and Petersen, Error estimates on averages of correlated
// data, J. Chem. Phys. 91, 1989).
//
// The windows of m elements overlap, which makes the estimate a third less noisy (Meketon and
// Schmeiser, Overlapping batch means, Winter Simulation Conference 1984). Three quarters of overlap
// are enough. m is doubled from a 64th to an eighth of the series.
//
// spread takes the largest value and looks for no plateau. Too long a correlation time costs steps,
// but too short a one makes the answer wrong.
//
// e must sum to 0. sums has room for one element more than e.
func spread(e, sums []float64, fitted int) (variance, inefficiency float64) {
	n := len(e)
	var total, squares float64
	for i, v := range e {
		sums[i] = total
		total += v
		squares += v * v
	}
	sums[n] = total
	if n <= fitted || squares <= 0 {
		return 0, 1
	}
	single := squares / float64(n-1)
	// The first window is longer than a 64th of the series. In a series so short that
	// this is a single element, single elements count, with a value of 1. Of a burst
	// that is cut off at the end, as much remains as the floor allows for.
	first := 2
	inefficiency = 1
	if n >= 2*64 {
		inefficiency = 1.0 / 32
		for first <= n/64 {
			first *= 2
		}
	}
	for m := first; m <= n/windows; m *= 2 {
		var of float64
		count := 0
		for i := m; i <= n; i += max(1, m/4) {
			d := sums[i] - sums[i-m]
			of += d * d
			count++
		}
		// of/m is the sum of the squared means times m; the rest makes the estimate
		// unbiased for independent elements.
		shown := of / float64(m) / float64(count) * float64(n) / float64(n-m) / single
		if 2*m > n/windows {
			shown = beyond(shown, float64(m))
		}
		inefficiency = max(inefficiency, shown)
	}
	return squares / float64(n-fitted), inefficiency
}

// beyond corrects an autocorrelation time for the part that windows of m elements are too short to
// show. It assumes that the correlation decays exponentially. Of a time t, such windows show t (1
// - x (1 - exp(-1/x))) with x = t/2m. Nothing changes where there is no correlation, or where the
// windows are much longer than the correlation.
func beyond(shown, m float64) float64 {
	if shown <= 1 {
		return shown
	}
	shown = min(shown, 0.95*m) // at m all elements of a window would be equal, and t infinite
	t := shown
	for range 30 {
		x := t / 2 / m
		next := shown / (1 - x*(1-math.Exp(-1/x)))
		if next < 1.01*t {
			return next
		}
		t = next
	}
	return t
}

// History is what a session has learnt of its host.
type History struct {
	Longest time.Duration // the longest correlation time measured so far
}

// Learn takes the correlation time of a stretch. It ignores stretches that are too short to show
// one.
func (h *History) Learn(m Stretch) {
	if m.Enough() {
		h.Longest = max(h.Longest, m.Step.Correlation)
	}
}
