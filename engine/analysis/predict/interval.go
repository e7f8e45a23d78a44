package predict

import "math"

// What the interval of a prediction allows for beside the assumptions: standard
// deviations of the logarithm of the rate. They are assumed, and checked on calibration
// runs, which are not those that docs/results/predict.md scores.
const (
	modelError  = 0.03 // of any prediction, also that nothing changes
	changeError = 0.03 // for each factor of e in the rate
	dataError   = 0.05 // of a share of time, in points
)

// again is by how much the logarithm of the rate of settings differs when they are in force
// again, beside what the window and the model do not know.
const again = 0.03

// z is the quantile of the normal distribution for 9 in 10.
const z = 1.645

// half is the half-width of the interval, of the logarithm of the rate, around a ratio
// to the measured rate. The steps that it follows from and those that it is for both vary. By what
// a simulation of the settings in force misses their rate, one of others may miss theirs.
func (m *Model) half(ratio float64) float64 {
	change := changeError * math.Log(ratio)
	noise := min(m.noise, 0.1)
	missed := math.Log(m.scale)
	return z * math.Sqrt(modelError*modelError+change*change+2*noise*noise+missed*missed)
}

// slack is what the interval of the share of time that the device waits for data allows
// for beside the assumptions.
func (m *Model) slack() float64 { return z * dataError }
