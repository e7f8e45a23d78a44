package prepared

import (
	"context"
	"time"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/loader"
)

// Task says what is trained, and what the start of the run may cost.
type Task struct {
	Model *nn.Model // nil with Fixed
	// Fixed makes the step of a modelled workload without a network: one operation
	// whose time the device knows.
	Fixed func(samples int) device.Operation
	Seed  int64 // of everything random, including the model's first parameters

	// TuneLimit is how long the start may try variants of the kernels, where the
	// device has several. 0 tries none.
	TuneLimit time.Duration
	Start     context.Context                    // its end ends a long start; may be nil
	Progress  func(what string, done, total int) // is told how far a long start is; may be nil

	HostMemory  func() host.Memory     // what this process may hold; nil where that is unknown
	HostPlanned func(trace.HostMemory) // is told what knobs in force are planned to take; may be nil
}

// Config is what steps are prepared from.
type Config struct {
	Task
	Device   device.Device
	Recorder *trace.Recorder // gets notes, and the memory as gauges
	// Quiesce waits until the device has finished everything that was enqueued. It is
	// called before anything that a step in flight uses is changed or freed.
	Quiesce func() error

	Split       // of training
	Test  Split // for evaluations; without samples there are none
	Saves bool  // the run copies the model's state to the host while it goes on
	Hold  int   // batches that are held at the same time, besides the loader's own
}

// Split describes the samples of a split and what the device makes of them.
type Split struct {
	Dataset   loader.Info
	Mean, Std [4]float32          // of the normalisation
	Steps     []loader.DeviceStep // the transforms that the device makes before it
}
