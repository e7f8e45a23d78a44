//go:build !unix

package command

import "dev.gpustall/engine/trace"

// watchStops has nothing to watch where processes are not stopped by a signal.
func watchStops(func(on bool), *trace.Recorder) (end func()) { return func() {} }
