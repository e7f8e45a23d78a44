package stats

import (
	"fmt"
	"math"
	"time"

	"dev.gpustall/engine/base/units"
)

// Drift is the straight line through the times of a stretch.
type Drift struct {
	Total    float64       // change from the stretch's start to its end, relative to its mean
	Error    float64       // standard error of Total
	Over     time.Duration // the stretch
	Detected bool          // a time-uniform 95 % interval shows that Total is not 0
}

// String returns the drift in words: "+1.9 % in 41.2 s", or that there is none.
func (d Drift) String() string {
	if !d.Detected {
		return "no drift"
	}
	half := halfWidth(d.Error * d.Error)
	gain := units.Prose.Gain(units.Estimate{Value: 1 + d.Total, Lo: 1 + d.Total - half, Hi: 1 + d.Total + half})
	return fmt.Sprintf("%s in %s", gain, units.Prose.Time(int64(d.Over)))
}

// fit takes a line, by least squares, out of the residuals e of equally long blocks. It returns the
// line, and the variance and inefficiency of what is left.
//
// The error of the line allows for autocorrelation as the error of a mean does: the variance of the
// slope is 12/n³ times the long-run variance. A drift is tested once there are enough independent
// windows, because before that every slow wave looks like one.
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

// What is expected of a host's drift before it is measured: on most hosts it is small, on some it
// is steep. The first two are standard deviations of the change of log(time) in a second: 0.75 %
// and 40 % in 20 s. They are assumptions, chosen by simulation. If more hosts were assumed to
// drift steeply, fewer differences would be found. If fewer were, drifts would pass for
// differences.
const (
	drifting = 0.0075 / 20
	steep    = 0.40 / 20
	some     = 0.4 // prior probability of a steep one
)

// expect combines what is known of a drift over distance, in ns, with its measurement m of this
// variance. It returns mean and variance of the posterior.
//
// The prior is a mixture of two normal distributions (spike and slab: Mitchell and Beauchamp,
// Journal of the American Statistical Association 83, 1988; George and McCulloch, the same 88,
// 1993). While the measurement cannot tell which of the two it is, the variance contains the
// distance between their answers.
func expect(m, variance, distance float64) (mean, left float64) {
	of := func(rate float64) (total, share float64) {
		prior := rate * distance / 1e9
		prior *= prior
		return prior + variance, prior / (prior + variance)
	}
	small, asSmall := of(drifting)
	large, asSteep := of(steep)
	odds := math.Log(some/(1-some)) + math.Log(small/large)/2 + m*m/2*(1/small-1/large)
	p := 1 / (1 + math.Exp(-odds))
	apart := m * (asSteep - asSmall)
	share := asSmall + p*(asSteep-asSmall)
	return m * share, variance*share + p*(1-p)*apart*apart
}

// between estimates how much log(time) drifts from the middle of one side to the middle of the
// other, distance ns apart. It returns the variance of the estimate too.
//
// Both slopes are measured. The common slope is their mean by precision, weighed with what is
// expected. So short stretches, which cannot tell whether they drift, allow for a drift, and long
// ones use what they measure. Where the slopes differ by more than their errors explain, each side
// uses its own slope for its part of the way. The surer the difference is, the more its own slope
// counts.
func between(sides *[2]side, distance float64) (shift, variance float64) {
	over := float64(sides[0].Drift.Over + sides[1].Drift.Over)
	if distance == 0 || over == 0 {
		return 0, 0
	}
	var moved, error2 [2]float64 // by each slope over the whole distance, and the squared standard errors
	precision, sum, bent := 0.0, 0.0, 0.0
	for i := range sides {
		s := &sides[i]
		if s.Drift.Over <= 0 {
			continue
		}
		k := distance / float64(s.Drift.Over)
		moved[i], error2[i] = s.Drift.Total*k, 12*s.variance*k*k
		precision += 1 / error2[i]
		sum += moved[i] / error2[i]
		// Either the time drifts along a line, or its logarithm does. Between the ends of the
		// stretch, the two are at most this far apart.
		bend := max(0, s.Drift.Total*s.Drift.Total-12*s.variance) / 8 // without the part that noise adds to the slope
		bent += bend * bend
	}
	common, variance := expect(sum/precision, 1/precision, distance)
	apart := moved[1] - moved[0]
	unlike := max(0, apart*apart-error2[0]-error2[1]) / 2 // variance of the slopes around the common one
	if error2[0] == 0 || error2[1] == 0 {
		unlike = 0
	}
	for i := range sides {
		part := float64(sides[i].Drift.Over) / over
		own := 0.0
		if unlike > 0 {
			own = unlike / (unlike + error2[i])
		}
		shift += part * (common + own*(moved[i]-common))
		variance += part * part * own * error2[i]
	}
	return shift, variance + bent
}
