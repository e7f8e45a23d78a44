package prepared

import (
	"strconv"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/kernels"
	"dev.gpustall/loader"
)

// Knobs are the knobs that prepared steps and their memory depend on.
type Knobs struct {
	Loader    loader.Knobs
	Precision kernels.Type
	Capture   bool // replay the step as a captured graph, where the device can

	Accumulate int // batches whose gradients make one optimizer step, 1 to 64
	Optimizer  nn.Optimizer
	Checkpoint bool  // keep fewer activations and compute the others again
	Dropout    Share // of the last layer's input that a training step leaves out
	Smoothing  Share // of a label that the loss spreads over all classes
	Autotune   bool  // take the kernel variants that trials found right and fastest
}

// Share is a knob from 0 to 0.9.
type Share float32

func (s *Share) String() string { return strconv.FormatFloat(float64(*s), 'g', -1, 32) }

// UnmarshalText parses a share.
func (s *Share) UnmarshalText(text []byte) error {
	v, err := strconv.ParseFloat(string(text), 32)
	if err != nil || !(v >= 0 && v <= 0.9) {
		return errs.Reason("no number from 0 to 0.9", "choose one")
	}
	*s = Share(v)
	return nil
}
