package predict

import "math"

// These are standard deviations of the logarithm of the rate. The interval of a prediction allows
// for them in addition to the assumptions. They are assumed, and checked on calibration runs.
// docs/results/predict.md scores other runs than those.
const (
	modelError  = 0.03  // of any prediction, even of no change
	crowdError  = 0.025 // beside that, where others have all of the cores and the device is idle at times: at most the time that it is
	leastNoise  = 0.01  // of a window's mean
	torchError  = 0.08  // of a change where workers are PyTorch's processes: so much were 25 predictions for scripts off (root mean square)
	changeError = 0.03  // for each factor of e by which the rate changes
	dataError   = 0.05  // of a share of time, in points
)

// again is how much the logarithm of the rate differs when the same settings come into force
// again, beside the errors of window and model.
const again = 0.03

// z is the quantile of the normal distribution for an interval of 90 %.
const z = 1.645

// half returns half the width of the interval of the logarithm of a rate, where the rate is ratio
// times the measured one. It allows for the noise of the measured and of the predicted steps. It
// also allows for the error of the simulation of the settings in force: a simulation of other
// settings may be as wrong.
func (m *Model) half(ratio float64) float64 {
	change := changeError * math.Log(ratio)
	noise := min(m.noise, 0.1)
	missed := math.Log(m.scale)
	if m.processes {
		change = math.Hypot(change, min(math.Abs(math.Log(ratio))/2, torchError))
	}
	crowd := min(crowdError, m.beside.idle) * min(1, m.Capacity.Cores.Others/max(m.Capacity.Cores.All, 1))
	return z * math.Sqrt(modelError*modelError+crowd*crowd+change*change+2*noise*noise+missed*missed)
}

// slack returns by how much the interval of the device's wait for data is wider than the
// assumptions make it, as a share of time.
func (m *Model) slack() float64 { return z * dataError }
