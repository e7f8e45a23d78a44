// Package cuda trains on an NVIDIA GPU behind the device contract, through the
// driver API alone: gorgonia.org/cu for devices, contexts, memory, streams and
// events, package driver for the rest. It is built with the tag cuda and finds
// libcuda.so.1 when it runs.
package cuda

import (
	"fmt"
	"os/exec"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
)

// Config says how to open a device.
type Config struct {
	// Ordinal is the GPU's number, from 0, in the order of CUDA_VISIBLE_DEVICES.
	Ordinal int
	// Choices remembers the fastest variant of each kernel and shape. Nil: the
	// likeliest variant is taken and nothing is tried.
	Choices Choices
	// Trials makes the command of a process that calls ServeTrials. Variants are tried
	// there, since a wrong one may break its GPU context, hang or crash. Nil: nothing is
	// tried, and what Choices remembers is taken.
	Trials func() *exec.Cmd
	// TuneEmulated tries variants on the emulated driver too, for tests. Their times
	// there say nothing about a GPU.
	TuneEmulated bool
}

// hintGPU is the hint for a GPU that fails, where no better one is known.
const hintGPU = "see nvidia-smi, or take --device cpu"

func noDevice(reason, hint string) error {
	return errs.Reason(reason, hint).Because(device.ErrNoDevice)
}

// opening adds to an error that it is about opening GPU number n.
func opening(n int, err error) error {
	return errs.Wrap(err, "open device", fmt.Sprintf("cuda:%d", n), hintGPU)
}

// Choices is a store of what the autotuner found: the variants taken, and those that were wrong.
// The keys name the GPU, its driver, the kernels and the operation with its shape. When Set returns
// the value must be stored for later runs. An empty value counts as none.
type Choices interface {
	Get(key string) (value string, ok bool)
	Set(key, value string)
}
