//go:build cuda && cgo && linux

package cuda

import (
	"errors"
	"fmt"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device/cuda/driver"
)

// Hints for errors that come from several places.
const (
	hintMemory = "lower batch_size"
	hintDriver = "update NVIDIA's driver"
)

// refused turns a status of the driver into an error with a hint. The status may be about this call
// or about work enqueued before. The caller adds the operation and the object.
func refused(err error) error {
	if err == nil { // nearly always; going on would allocate
		return nil
	}
	if _, already := errs.As(err); already {
		return err
	}
	return errs.Reason(err.Error(), hint(err)).Because(err)
}

// hint returns the hint for a status of the driver, where there is one.
func hint(err error) string {
	var status driver.Error
	switch errors.As(err, &status); {
	case status == driver.OutOfMemory:
		return hintMemory
	case status == driver.Uncorrected:
		return "see nvidia-smi -q -d ECC, and take another GPU with --device cuda:N"
	case status.Kernel():
		return "run it again with another --precision, whose kernels are others"
	}
	return ""
}

// onGPU names n bytes of device memory in errors.
func onGPU(n int64) string { return fmt.Sprintf("%d MiB on the GPU", n>>20) }
