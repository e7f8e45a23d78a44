//go:build cuda && cgo && linux

package cuda

import (
	"errors"
	"fmt"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device/cuda/driver"
)

// What there is to do about errors that come from several places.
const (
	hintMemory = "lower batch_size"
	hintDriver = "update NVIDIA's driver"
)

// refused is the error of a call that the driver refused, or by which it told of work
// enqueued before. What was being done with what, its caller says.
func refused(err error) error {
	if err == nil { // nearly always, and to ask for more would allocate
		return nil
	}
	if _, already := errs.As(err); already {
		return err
	}
	return errs.Reason(err.Error(), hint(err)).Because(err)
}

// hint is what there is to do about a status of the driver, where that is known.
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

// onGPU is n bytes of device memory, as errors name them.
func onGPU(n int64) string { return fmt.Sprintf("%d MiB on the GPU", n>>20) }
