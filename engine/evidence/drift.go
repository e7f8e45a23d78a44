package evidence

import (
	"fmt"
	"math"
	"time"

	"dev.gpustall/engine/figures"
)

// Drift is the straight line through a stretch.
type Drift struct {
	Total    float64       // change from the stretch's start to its end, relative to its mean
	Error    float64       // standard error of Total
	Over     time.Duration // the stretch
	Detected bool          // Total is not 0, by a time-uniform 95 % interval
}

// String says the drift in words: "+1.9 % in 41.2 s", or that there is none.
func (d Drift) String() string {
	if !d.Detected {
		return "no drift"
	}
	half := halfWidth(d.Error * d.Error)
	gain := figures.Prose.Gain(figures.Estimate{Value: 1 + d.Total, Lo: 1 + d.Total - half, Hi: 1 + d.Total + half})
	return fmt.Sprintf("%s in %s", gain, figures.Prose.Time(int64(d.Over)))
}

// fit takes the line through the residuals e of equally long blocks out of them, by
// least squares, and returns it with the variance and inefficiency of what is left.
// The error allows for that autocorrelation as the error of a mean does: the variance
// of the slope is 12/n³ times the long-run variance. A drift is tested when enough
// independent windows are there; before that every slow wave looks like one.
func fit(e, sums []float64, active time.Duration) (d Drift, variance, inefficiency float64) {
	d.Over = active
	n := float64(len(e))
	if len(e) < 3 {
		return d, 0, 1
	}
	var slope float64
	for i, v := range e {
		slope += (float64(i) - (n-1)/2) * v
	}
	slope *= 12 / (n * (n*n - 1))
	for i := range e {
		e[i] -= slope * (float64(i) - (n-1)/2)
	}
	variance, inefficiency = spread(e, sums, 2)
	d.Total = slope * n
	d.Error = math.Sqrt(12 * variance * inefficiency / n)
	d.Detected = n >= leastWindows*max(1, inefficiency) && math.Abs(d.Total) > halfWidth(d.Error*d.Error)
	return d, variance, inefficiency
}

// drifting is how fast hosts drift before it is measured: the standard deviation of
// the change of log(time) in a second, 0.75 % in 20 s. It is an assumption, small
// beside the differences that are looked for in windows of a few seconds.
const drifting = 0.0075 / 20

// between estimates the change of log(time) that the drift common to both sides makes
// over distance, in ns, and the variance of the estimate.
//
// Both slopes are measured. They are combined by precision with what is expected: no
// drift, give or take drifting, or more when the slopes are steeper than twice their
// error (as the moment estimator of DerSimonian and Laird, Controlled Clinical Trials
// 7, 1986). So short stretches, which cannot measure their drift, take the little that
// is expected, and long ones what they measure.
func between(sides *[2]side, distance float64) (shift, variance float64) {
	if distance == 0 {
		return 0, 0
	}
	precision, sum := 0.0, 0.0
	for i := range sides {
		s := &sides[i]
		if s.Drift.Over > 0 {
			k := distance / float64(s.Drift.Over)
			p := 1 / (12 * s.variance * k * k)
			precision += p
			sum += p * s.Drift.Total * k
		}
	}
	expected := drifting * distance / 1e9
	moved := sum / precision
	precision += 1 / (expected*expected + max(0, moved*moved-4/precision))
	return sum / precision, 1 / precision
}
