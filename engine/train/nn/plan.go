package nn

import (
	"fmt"
	"slices"
	"strings"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// PlanConfig is what a plan is made for.
type PlanConfig struct {
	Batch int
	Type  kernels.Type // of activations and of the weights that are multiplied

	// DeviceTransforms says that the input is uint8 pixels and augmentation
	// parameters, which the device turns into samples with Mean and Std. Otherwise
	// the input is finished float32 samples.
	DeviceTransforms bool
	Mean, Std        [4]float32

	// Transforms are the operations that the device runs on the pixels before it shifts,
	// flips and normalises them, for a batch of n samples; nil where there are none. They
	// take [x, record, y], each on the output of the one before. SampleBytes is the size of
	// a sample for the first one. Record is how many numbers of augmentation a sample has;
	// 0 means as many as without transforms.
	Transforms  func(n int) []kernels.Op
	SampleBytes int
	Record      int
	SamplesOff  int // where the samples begin in Input

	// Input holds one batch, laid out as loader.Batch.Host is: samples at 0,
	// int32 labels at LabelsOff, int32[Batch][4] augmentation at AugOff.
	Input     device.Buffer
	LabelsOff int
	AugOff    int

	// Accumulate is the number of batches whose gradients make one optimizer step;
	// 0 means 1.
	Accumulate int

	// Rule is the optimizer's rule. With WeightsOnly, weight decay leaves biases and norms
	// alone.
	Rule        kernels.Rule
	WeightsOnly bool

	// Checkpoint is activation checkpointing. It keeps only the residual blocks'
	// outputs for the backward pass and computes the rest of each block a second time,
	// which saves memory and costs work. It changes nothing in models without residual
	// blocks.
	Checkpoint bool

	// Dropout is the share of the last layer's input that training leaves out. Smoothing is
	// the share of a label that the loss spreads over all classes (PyTorch's
	// label_smoothing). An evaluation has neither.
	Dropout, Smoothing float32

	// Test asks for an evaluation alone: there is no Train and no Accumulate.
	Test bool

	// Activations is memory that plans share. Nil gives the plan its own.
	Activations *Activations
}

// Plan is a training step and an evaluation step on one input buffer, as data.
// It stays valid until its State is used for a plan with another Type,
// Accumulate or Rule, or freed.
type Plan struct {
	// Train is forward, loss, backward and optimizer.
	Train []device.Launch
	// Accumulate is forward, loss, backward and the sum of gradients. Of each
	// PlanConfig.Accumulate batches, all but the last run it instead of Train. It is
	// nil without accumulation.
	Accumulate []device.Launch
	// Eval is forward with the running statistics, and loss.
	Eval []device.Launch

	// Metrics is float32[2], written by each of them: the batch's mean loss and
	// its number of top-1 hits.
	Metrics device.Buffer

	FLOPs float64 // of Train

	dev device.Device
	own *Activations // nil when they are shared
}

// Plan builds the launches of one batch size and type on st. A change of Type,
// Accumulate or Rule changes st too (the 16-bit copy, the stem's padding, the slots).
// So no earlier plan may be in flight, and none may run afterwards. The gradients
// accumulated so far stay until State.DropSum. Plan waits for its own copies.
func (m *Model) Plan(dev device.Device, st *State, c PlanConfig) (*Plan, error) {
	if st == nil || st.m != m {
		return nil, fmt.Errorf("nn: plan of model %q: the state belongs to another model", m.Name)
	}
	c, err := m.check(c)
	if err != nil {
		return nil, err
	}
	if err := m.checkInput(c); err != nil {
		return nil, err
	}
	if types := dev.Info().Types; !slices.Contains(types, c.Type.String()) {
		return nil, errs.New("plan", fmt.Sprintf("model %s in %s", m.Name, c.Type), device.ErrUnsupported.Error(),
			"choose one of "+strings.Join(types, ", ")).Because(device.ErrUnsupported)
	}
	if err := m.checkActivations(c); err != nil {
		return nil, err
	}
	if err := st.Configure(Layout{c.Type, c.Accumulate, c.Rule}); err != nil {
		return nil, err
	}
	p := &Plan{dev: dev}
	if p.Metrics, err = dev.Alloc(MetricsSize); err != nil {
		return nil, errs.Wrap(err, "allocate", "the metrics of model "+m.Name, "")
	}
	lists := m.lists(st, c, p.Metrics)
	shared := c.Activations
	if shared == nil {
		if p.own, err = m.NewActivations(dev, lists.memory); err != nil {
			p.Free()
			return nil, err
		}
		shared = p.own
	}
	p.Train = lists.train.resolve(shared.buf)
	p.Accumulate = lists.accumulate.resolve(shared.buf)
	p.Eval = lists.eval.resolve(shared.buf)
	for _, l := range p.Train {
		p.FLOPs += l.Op.FLOPs()
	}
	return p, nil
}

// checkActivations refuses a plan that the shared activations are too small for,
// before anything changes.
func (m *Model) checkActivations(c PlanConfig) error {
	if c.Activations == nil {
		return nil
	}
	if need, have := m.lists(nil, c, device.Buffer{}).memory, c.Activations.buf.Size; have < need {
		return fmt.Errorf("nn: plan of model %q with batch_size %d: its activations take %d bytes and there are %d; allocate as much as the plan's Memory",
			m.Name, c.Batch, need, have)
	}
	return nil
}

// Free returns the plan's memory, but not shared activations. The plan must not be in
// flight.
func (p *Plan) Free() {
	if p.Metrics.Size > 0 {
		p.dev.Free(p.Metrics)
		p.Metrics = device.Buffer{}
	}
	if p.own != nil {
		p.own.Free()
	}
}

// Memory returns the bytes of activations that a plan takes.
func (m *Model) Memory(c PlanConfig) (int, error) {
	c, err := m.check(c)
	if err != nil {
		return 0, err
	}
	return m.lists(nil, c, device.Buffer{}).memory, nil
}

func (m *Model) check(c PlanConfig) (PlanConfig, error) {
	c.Accumulate = max(c.Accumulate, 1)
	if c.Batch < 1 {
		return c, fmt.Errorf("nn: plan of model %q: batch_size %d must be at least 1", m.Name, c.Batch)
	}
	if !(c.Dropout >= 0 && c.Dropout < 1 && c.Smoothing >= 0 && c.Smoothing <= 1) {
		return c, fmt.Errorf("nn: plan of model %q: dropout %g must be from 0 to less than 1, label smoothing %g from 0 to 1", m.Name, c.Dropout, c.Smoothing)
	}
	if c.Type > kernels.BF16 {
		return c, fmt.Errorf("nn: plan of model %q: %s is no compute type; choose fp32, tf32, fp16 or bf16", m.Name, c.Type)
	}
	return c, nil
}

// sampleBytes returns the size of a sample in Input.
func (c *PlanConfig) sampleBytes(m *Model) int {
	switch {
	case !c.DeviceTransforms:
		return 4 * m.In.elems()
	case c.SampleBytes > 0:
		return c.SampleBytes
	}
	return m.In.elems()
}

func (m *Model) checkInput(c PlanConfig) error {
	if c.DeviceTransforms && m.In.T > 0 {
		return fmt.Errorf("nn: plan of model %q: the device has no transforms of clips", m.Name)
	}
	pixels := c.Batch * c.sampleBytes(m)
	parts := []struct {
		what     string
		off, len int
	}{{"samples", c.SamplesOff, pixels}, {"labels", c.LabelsOff, 4 * c.Batch}}
	if c.DeviceTransforms {
		parts = append(parts, struct {
			what     string
			off, len int
		}{"augmentation", c.AugOff, 4 * max(c.Record, kernels.AugLen) * c.Batch})
		for i := range m.In.C {
			if c.Std[i] <= 0 {
				return fmt.Errorf("nn: plan of model %q: standard deviation %g of channel %d must be positive", m.Name, c.Std[i], i)
			}
		}
	}
	for i, p := range parts {
		if p.off < 0 || p.off+p.len > c.Input.Size {
			return fmt.Errorf("nn: plan of model %q with batch_size %d: %s at %d..%d lie outside the input buffer of %d bytes",
				m.Name, c.Batch, p.what, p.off, p.off+p.len, c.Input.Size)
		}
		if p.off%4 != 0 || (i > 0 && p.off < c.SamplesOff+pixels && p.off+p.len > c.SamplesOff) {
			return fmt.Errorf("nn: plan of model %q: %s at %d must be aligned to 4 bytes and follow the %d bytes of samples", m.Name, p.what, p.off, pixels)
		}
	}
	return nil
}
