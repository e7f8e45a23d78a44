//go:build !cuda

package command

import (
	"fmt"

	"dev.gpustall/engine/device"
)

// openCUDA says that this binary has no CUDA device.
func openCUDA(int) (device.Device, error) {
	return nil, fmt.Errorf("this binary was built without CUDA (make builds it in): %w", device.ErrNoDevice)
}
