//go:build !unix

package command

import "dev.gpustall/engine/trace"

// watchStops does nothing: on this system no signal stops a process.
func watchStops(func(on bool), *trace.Recorder) (end func()) { return func() {} }

// inFront reports whether the terminal is ours to read. This system has no jobs.
func inFront() bool { return true }
