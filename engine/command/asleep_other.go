//go:build !unix

package command

// watchStops has nothing to watch where processes are not stopped by a signal.
func watchStops(func(on bool)) (end func()) { return func() {} }
