package prepared

import (
	"errors"
	"slices"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/train/nn"
)

// hintMemory is the hint of an error about device memory where no better one is known.
const hintMemory = "lower batch_size"

// buffers is the device memory that all prepared steps share: the model's state, the
// input slots and the activations. Steps that point into a buffer are released before it
// is freed. It belongs to Steps.
type buffers struct {
	dev         device.Device
	model       *nn.Model // nil without a network
	state       *nn.State // nil without a network, and until the run's memory is reserved
	activations *nn.Activations
	inputs      [Slots]device.Buffer
	cache       *cache
}

// fill allocates what n asks for. Buffers that are large enough stay, unless memory is
// short. Then everything but the state is freed first.
func (b *buffers) fill(n *need) error {
	err := b.allocate(n.input, n.activations, n.basis.Layout)
	if errors.Is(err, device.ErrOutOfMemory) {
		b.free()
		err = b.allocate(n.input, n.activations, n.basis.Layout)
	}
	return err
}

// allocate makes each input slot and the activations at least as large as asked for, in
// bytes, and lays the state out. It frees what is too small first.
func (b *buffers) allocate(input, activations int, layout nn.Layout) (err error) {
	if activations > b.activationBytes() {
		b.freeActivations()
	}
	if input > b.inputs[0].Size {
		b.freeInputs()
	}
	if b.state != nil {
		if err := b.state.Configure(layout); err != nil {
			return err
		}
	}
	for i := range b.inputs {
		if b.inputs[i].Size > 0 {
			continue
		}
		if b.inputs[i], err = b.dev.Alloc(input); err != nil {
			b.inputs[i] = device.Buffer{}
			b.freeInputs()
			return errs.Wrap(err, "allocate", units.Prose.Bytes(int64(input))+" of input", hintMemory)
		}
	}
	if b.activations == nil && activations > 0 {
		b.activations, err = b.model.NewActivations(b.dev, activations)
	}
	return err
}

func (b *buffers) activationBytes() int {
	if b.activations == nil {
		return 0
	}
	return b.activations.Buffer().Size
}

// free gives back the prepared steps and everything they share but the state.
func (b *buffers) free() {
	b.freeInputs()
	b.freeActivations()
}

func (b *buffers) freeInputs() {
	b.cache.clear()
	for i, in := range b.inputs {
		if in.Size > 0 {
			b.dev.Free(in)
			b.inputs[i] = device.Buffer{}
		}
	}
}

func (b *buffers) freeActivations() {
	b.cache.clear()
	if b.activations != nil {
		b.activations.Free()
		b.activations = nil
	}
}

// close frees everything. Nothing may be in flight.
func (b *buffers) close() {
	b.free()
	if b.state != nil {
		b.state.Free()
	}
}

// additions returns the reservation of what fill will allocate for n beside the memory
// in use, and of what fill will free before. Steps of another basis than from are
// released.
func (b *buffers) additions(n *need, from basis) device.Reservation {
	r := device.Reservation{Launches: n.launches}
	inputs, activations := b.inputs[0].Size, b.activationBytes()
	switch {
	case b.model != nil && b.state == nil:
		r.Sizes = b.model.StateSizes(n.basis.Layout)
	case b.model != nil:
		r.Sizes = b.state.Missing(n.basis.Layout)
	}
	if n.input > inputs {
		r.Sizes = append(r.Sizes, slices.Repeat([]int{n.input}, Slots)...)
		if inputs > 0 {
			r.Instead = append(r.Instead, b.inputs[:]...)
		}
	}
	if b.model == nil {
		return r
	}
	if n.activations > activations {
		r.Sizes = append(r.Sizes, n.activations)
		if activations > 0 {
			r.Instead = append(r.Instead, b.activations.Buffer())
		}
	}
	metrics, held := maxSteps*Slots, b.cache.metrics()
	if n.input > inputs || n.activations > activations || n.basis != from {
		r.Instead = append(r.Instead, held...)
	} else {
		metrics -= len(held)
	}
	r.Sizes = append(r.Sizes, slices.Repeat([]int{nn.MetricsSize}, metrics)...)
	return r
}

// replacement returns the reservation of n in place of all memory in use.
func (b *buffers) replacement(n *need) device.Reservation {
	state := append(b.state.Sizes(), b.state.Missing(n.basis.Layout)...)
	return afresh(state, n.input, n.activations, n.launches)
}

// same returns the reservation of the memory in use, to take it again.
func (b *buffers) same(launches []device.Launch) device.Reservation {
	return afresh(b.state.Sizes(), b.inputs[0].Size, b.activationBytes(), launches)
}

// afresh returns the reservation of a state and of the rest of a run's memory.
func afresh(state []int, input, activations int, launches []device.Launch) device.Reservation {
	sizes := slices.Concat(state, slices.Repeat([]int{input}, Slots))
	if activations > 0 {
		sizes = append(sizes, activations)
	}
	sizes = append(sizes, slices.Repeat([]int{nn.MetricsSize}, maxSteps*Slots)...)
	return device.Reservation{Sizes: sizes, Launches: launches, Afresh: true}
}
