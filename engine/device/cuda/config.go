// Package cuda trains on an NVIDIA GPU behind the device contract, through the
// driver API alone: gorgonia.org/cu for devices, contexts, memory, streams and
// events, package driver for the rest. It is built with the tag cuda and finds
// libcuda.so.1 when it runs.
package cuda

import (
	"sort"
	"strings"
)

// Config says how to open a device.
type Config struct {
	// Ordinal is the GPU's number, from 0, in the order of CUDA_VISIBLE_DEVICES.
	Ordinal int
	// Choices remembers the fastest variant of each kernel and shape. Nil: the
	// likeliest variant is taken and nothing is tried.
	Choices Choices
	// TuneEmulated tries variants on the emulated driver too, for tests: what they
	// take there says nothing about a GPU.
	TuneEmulated bool
}

// Choices is a store of what the autotuner found: the variants taken, those that
// were wrong, and the one it is trying. The keys name the GPU, its driver, the
// kernels and the operation with its shape. Set must have stored the value for
// later runs when it returns, because what follows may end the process; an empty
// value is as none.
type Choices interface {
	Get(key string) (value string, ok bool)
	Set(key, value string)
}

// Keys of a store are choices but for these two.
const (
	tryingSuffix = ": trying"  // the variant being tried
	variantInfix = " variant " // a variant that is not used; the value says why
)

// Describe tells what a store holds: how many choices, and the variants that are
// not used, with the reason.
func Describe(store map[string]string) (choices int, wrong []string) {
	for key, value := range store {
		switch {
		case value == "" || strings.HasSuffix(key, tryingSuffix):
		case strings.Contains(key, variantInfix):
			wrong = append(wrong, key+": "+value)
		default:
			choices++
		}
	}
	sort.Strings(wrong)
	return choices, wrong
}
