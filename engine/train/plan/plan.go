// Package plan keeps on the device what the steps of a run need: the model's state,
// the input slots, the activations, and for batches of each size a plan, which is
// a step's launches, prepared. The memory of all of it is added up before any is
// taken, at the start and when knobs change.
package plan

import (
	"strconv"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/engine/train/ops"
	"dev.gpustall/kernels"
	"dev.gpustall/loader"
)

// Slots is how many batches the device holds at once: one being copied in while
// another is computed on.
const Slots = 2

// Knobs are the knobs that plans and their memory depend on.
type Knobs struct {
	Loader    loader.Knobs
	Precision kernels.Type
	Capture   bool // replay the step as a captured graph, where the device can

	Accumulate int // batches whose gradients make one optimizer step, 1 to 64
	Optimizer  nn.Optimizer
	Checkpoint bool  // keep fewer activations and compute the others again
	Dropout    Share // of what the last layer reads that a training step leaves out
	Smoothing  Share // of a label that the loss spreads over all classes
	Autotune   bool  // take the kernels that trials found right and fastest, where the device has several
}

// Share is a knob from 0 to 0.9.
type Share float32

func (s *Share) String() string { return strconv.FormatFloat(float64(*s), 'g', -1, 32) }

// UnmarshalText reads it.
func (s *Share) UnmarshalText(text []byte) error {
	v, err := strconv.ParseFloat(string(text), 32)
	if err != nil || !(v >= 0 && v <= 0.9) {
		return errs.Reason("no number from 0 to 0.9", "choose one")
	}
	*s = Share(v)
	return nil
}

// Key is what a batch's plan is found by.
type Key struct {
	Samples          int
	DeviceTransforms bool
	Test             bool // of the test split, to be evaluated
}

// Plan is the step of batches of one size, or their evaluation, once for each input slot.
type Plan struct {
	key   Key
	slots [Slots]Slot
	used  int // turn of the latest use
}

// Slot is the step on the batch in one input slot.
type Slot struct {
	Input   device.Buffer
	net     *nn.Plan // nil without a network
	whole   ops.Program
	partial ops.Program // sums gradients only; zero without accumulation
}

// Slot is the step of the given number; they take turns.
func (p *Plan) Slot(step int32) *Slot { return &p.slots[step%Slots] }

// Program is what a step runs: the whole step, or, when its batch is not the last of
// those whose gradients are accumulated, all but the optimizer. A workload without a
// network has one program for both.
func (s *Slot) Program(last bool) *ops.Program {
	if s.partial.ID != 0 && !last {
		return &s.partial
	}
	return &s.whole
}

// ReadMetrics enqueues the copy of the step's loss and hits to the host.
func (s *Slot) ReadMetrics(dev device.Device, stream device.Stream, dst []byte) error {
	if s.net == nil {
		return nil
	}
	return dev.CopyOut(stream, dst[:nn.MetricsSize], s.net.Metrics)
}
