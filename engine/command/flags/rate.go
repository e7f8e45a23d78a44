package flags

import (
	"fmt"

	"dev.gpustall/engine/command/cli"
	"github.com/spf13/pflag"
)

// maxRate is the highest price of a device, in dollars an hour.
const maxRate = 1e6

// AddRate adds --gpu-rate, the price of the device.
func AddRate(fs *pflag.FlagSet, rate *float64) {
	fs.Float64Var(rate, "gpu-rate", 0, "what an hour of the device costs, in `DOLLARS`: says what waiting for data costs (default: not said)")
}

// CheckRate refuses a price that is out of range.
func CheckRate(rate float64) error {
	if rate >= 0 && rate <= maxRate {
		return nil
	}
	return cli.Refuse(fmt.Sprintf("--gpu-rate %g", rate), "out of range", fmt.Sprintf("give dollars an hour, 0 to %.0f", float64(maxRate)))
}
