//go:build !(cuda && cgo && linux)

package cuda

import "dev.gpustall/engine/device"

// Available says why there is no CUDA device.
func Available() error {
	return noDevice("this gpustall was built without CUDA", "build it with make, or take --device cpu")
}

// Count returns how many GPUs there are.
func Count() int { return 0 }

// Open returns what Available returns.
func Open(c Config) (device.Device, error) { return nil, opening(c.Ordinal, Available()) }

// ServeTrials returns what Available returns.
func ServeTrials() error { return Available() }
