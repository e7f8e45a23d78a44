//go:build !(cuda && cgo && linux)

package cuda

import (
	"fmt"

	"dev.gpustall/engine/device"
)

// Available says why there is no CUDA device.
func Available() error {
	return fmt.Errorf("cuda device: %w: this gpustall was built without CUDA; build it with make", device.ErrNoDevice)
}

// Count is how many GPUs there are.
func Count() int { return 0 }

// Open returns what Available returns.
func Open(Config) (device.Device, error) { return nil, Available() }
