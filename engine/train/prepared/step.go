package prepared

import (
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/engine/train/ops"
)

// Slots is how many batches the device holds at once: it computes on one while the
// next is copied in.
const Slots = 2

// Key identifies the prepared step of a batch.
type Key struct {
	Samples          int
	DeviceTransforms bool
	Test             bool // an evaluation on the test split
}

// Step is the step of batches of one size, or their evaluation, prepared once for
// each input slot.
type Step struct {
	key   Key
	slots [Slots]Slot
	used  int // turn of the latest use
}

// Slot is the step on the batch in one input slot.
type Slot struct {
	Input   device.Buffer
	plan    *nn.Plan // nil without a network
	whole   ops.Program
	partial ops.Program // sums gradients only; zero without accumulation
}

// Slot returns the slot of the step with the given number. Slots take turns.
func (s *Step) Slot(number int32) *Slot { return &s.slots[number%Slots] }

// Program returns what a step runs: all of it, or everything but the optimizer when more
// gradients are to be accumulated. A workload without a network has one program for both.
func (s *Slot) Program(last bool) *ops.Program {
	if s.partial.ID != 0 && !last {
		return &s.partial
	}
	return &s.whole
}

// ReadMetrics enqueues the copy of the step's loss and hits to the host.
func (s *Slot) ReadMetrics(dev device.Device, stream device.Stream, dst []byte) error {
	if s.plan == nil {
		return nil
	}
	return dev.CopyOut(stream, dst[:nn.MetricsSize], s.plan.Metrics)
}

// load makes the device prepare the launches of a program.
func load(dev device.Device, capture bool, prog *ops.Program, ls []device.Launch) (err error) {
	if *prog, err = ops.NewProgram(dev, ls); err != nil {
		return err
	}
	return setCapture(dev, prog, capture)
}

// setCapture makes the device replay a program as one graph, or not, if it can.
func setCapture(dev device.Device, prog *ops.Program, on bool) error {
	if c, ok := dev.(device.Capturer); ok {
		return c.Capture(prog.ID, on)
	}
	return nil
}

// capture turns the replay as a graph on or off for all programs of the step.
func (s *Step) capture(dev device.Device, on bool) error {
	for i := range s.slots {
		slot := &s.slots[i]
		if err := setCapture(dev, &slot.whole, on); err != nil {
			return err
		}
		if slot.partial.ID == 0 {
			continue
		}
		if err := setCapture(dev, &slot.partial, on); err != nil {
			return err
		}
	}
	return nil
}

// release gives the step's programs and their memory back to the device.
func (s *Step) release(dev device.Device) {
	for i := range s.slots {
		slot := &s.slots[i]
		for _, prog := range []*ops.Program{&slot.whole, &slot.partial} {
			if prog.ID != 0 {
				dev.Release(prog.ID)
			}
		}
		if slot.plan != nil {
			slot.plan.Free()
		}
	}
}
