package flags

import (
	"fmt"

	"dev.gpustall/engine/command/cli"
	"github.com/spf13/pflag"
)

// maxRate bounds what an hour of a device may cost, in dollars.
const maxRate = 1e6

// AddRate adds the flag that prices the device's time.
func AddRate(fs *pflag.FlagSet, rate *float64) {
	fs.Float64Var(rate, "gpu-rate", 0, "what an hour of the device costs, in `DOLLARS`: says what waiting for data costs (default: not said)")
}

// CheckRate refuses a price that no device has.
func CheckRate(rate float64) error {
	if rate >= 0 && rate <= maxRate {
		return nil
	}
	return cli.Refuse(fmt.Sprintf("--gpu-rate %g", rate), "out of range", fmt.Sprintf("give dollars an hour, 0 to %.0f", float64(maxRate)))
}
