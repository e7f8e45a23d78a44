package predict

import "math"

// Standard deviations of the logarithm of the rate, which the interval of a prediction allows for
// in addition to the assumptions. They are assumed, and checked on calibration runs, which are
// others than those that docs/results/predict.md scores.
const (
	modelError  = 0.03 // of any prediction, even of no change
	changeError = 0.03 // for each factor of e by which the rate changes
	dataError   = 0.05 // of a share of time, in points
)

// again is by how much the logarithm of the rate differs when the same settings come into force
// again, in addition to the errors of window and model.
const again = 0.03

// z is the quantile of the normal distribution for an interval of 90 %.
const z = 1.645

// half is half the width of the interval of the logarithm of a rate, which is ratio times the
// measured rate. It allows for the noise of the steps that were measured and of those that are
// predicted. It also allows for the error of the simulation of the settings in force, because a
// simulation of other settings may be wrong by as much.
func (m *Model) half(ratio float64) float64 {
	change := changeError * math.Log(ratio)
	noise := min(m.noise, 0.1)
	missed := math.Log(m.scale)
	return z * math.Sqrt(modelError*modelError+change*change+2*noise*noise+missed*missed)
}

// slack is what the interval of the device's wait for data allows for in addition to the
// assumptions, as a share of time.
func (m *Model) slack() float64 { return z * dataError }
