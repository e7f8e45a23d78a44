//go:build !(cuda && cgo && linux)

package cuda

import (
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/fault"
)

// Available says why there is no CUDA device.
func Available() error {
	return fault.Reason("this gpustall was built without CUDA", "build it with make, or take --device cpu").Because(device.ErrNoDevice)
}

// Count is how many GPUs there are.
func Count() int { return 0 }

// Open returns what Available returns.
func Open(Config) (device.Device, error) { return nil, Available() }

// ServeTrials returns what Available returns.
func ServeTrials() error { return Available() }
