package command

import (
	"fmt"

	"github.com/spf13/pflag"
)

// maxRate bounds what an hour of a device may cost, in dollars.
const maxRate = 1e6

// addRate adds the flag that prices the device's time.
func addRate(fs *pflag.FlagSet, rate *float64) {
	fs.Float64Var(rate, "gpu-rate", 0, "what an hour of the device costs, in `DOLLARS`: says what waiting for data costs (default: not said)")
}

// checkRate refuses a price that no device has.
func checkRate(rate float64) error {
	if rate >= 0 && rate <= maxRate {
		return nil
	}
	return refuse(fmt.Sprintf("--gpu-rate %g", rate), "out of range", fmt.Sprintf("give dollars an hour, 0 to %.0f", float64(maxRate)))
}
