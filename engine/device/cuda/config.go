// Package cuda trains on an NVIDIA GPU behind the device contract, through the
// driver API alone: gorgonia.org/cu for devices, contexts, memory, streams and
// events, package driver for the rest. It is built with the tag cuda and finds
// libcuda.so.1 when it runs.
package cuda

import (
	"fmt"
	"os/exec"
	"sort"
	"strings"

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
	// Trials makes the command of a process that calls ServeTrials: there variants are
	// tried, for a wrong one may break its GPU context, hang or crash. Nil: nothing is
	// tried, and what Choices remembers is taken.
	Trials func() *exec.Cmd
	// TuneEmulated tries variants on the emulated driver too, for tests: what they
	// take there says nothing about a GPU.
	TuneEmulated bool
}

// hintGPU is what there is to do about a GPU that fails, where nothing better is known.
const hintGPU = "see nvidia-smi, or take --device cpu"

func noDevice(reason, hint string) error {
	return errs.Reason(reason, hint).Because(device.ErrNoDevice)
}

// opening names GPU number n in an error of opening it.
func opening(n int, err error) error {
	return errs.Wrap(err, "open device", fmt.Sprintf("cuda:%d", n), hintGPU)
}

// Choices is a store of what the autotuner found: the variants taken, and those that
// were wrong. The keys name the GPU, its driver, the kernels and the operation with
// its shape. Set must have stored the value for later runs when it returns; an empty
// value is as none.
type Choices interface {
	Get(key string) (value string, ok bool)
	Set(key, value string)
}

// kernelsInfix is what stands before the hash of the kernels in every key of a store.
const kernelsInfix = ", kernels "

// Supersedes reports whether what a store has under one key is out of date once there is
// something under another: it says the same of other kernels, which this program no longer
// has.
func Supersedes(key, old string) bool {
	gpu, rest, ok := strings.Cut(key, kernelsInfix)
	oldGPU, oldRest, oldOK := strings.Cut(old, kernelsInfix)
	_, what, _ := strings.Cut(rest, ":")
	_, oldWhat, _ := strings.Cut(oldRest, ":")
	return ok && oldOK && key != old && gpu == oldGPU && what == oldWhat
}

// What the keys of a store that are no choices have in them; the value says why.
const (
	variantInfix = " variant " // a variant that is not used
	familyInfix  = " family "  // a family of variants (cudakernels.Families) that is not used
)

// Describe tells what a store holds: how many choices, and the variants that are
// not used, with the reason.
func Describe(store map[string]string) (choices int, wrong []string) {
	for key, value := range store {
		switch {
		case value == "":
		case strings.Contains(key, variantInfix), strings.Contains(key, familyInfix):
			wrong = append(wrong, key+": "+value)
		default:
			choices++
		}
	}
	sort.Strings(wrong)
	return choices, wrong
}
