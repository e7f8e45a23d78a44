// Package cuda trains on an NVIDIA GPU behind the device contract, through the
// driver API alone: gorgonia.org/cu for devices, contexts, memory, streams and
// events, package driver for the rest. It is built with the tag cuda and finds
// libcuda.so.1 when it runs.
package cuda

// Config says how to open a device.
type Config struct {
	// Ordinal is the GPU's number, from 0, in the order of CUDA_VISIBLE_DEVICES.
	Ordinal int
	// Choices remembers the fastest variant of each kernel and shape. Nil: the
	// likeliest variant is taken and nothing is timed.
	Choices Choices
}

// Choices is a store of autotuned kernel variants. The keys name the GPU, the
// operation and its shape.
type Choices interface {
	Get(key string) (config string, ok bool)
	Set(key, config string)
}
