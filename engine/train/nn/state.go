package nn

import (
	"fmt"
	"math"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/splitmix"
	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// State holds, on a device, what a model learns and what learning needs: master
// weights, gradients, the optimizer's slots, running statistics and hyper-parameters.
// It outlives plans: to change batch size, compute type, accumulation or optimizer,
// build another plan on the same State.
type State struct {
	m      *Model
	copier copier
	places places
	layout Layout // of the buffers

	weights device.Buffer
	grads   device.Buffer
	stats   device.Buffer
	noise   device.Buffer // int32[kernels.NoiseLen]: seed and batch count that dropout draws from
	sum     device.Buffer // accumulated gradients; empty until a plan accumulates
	copy    device.Buffer // the weights in a 16-bit type; empty until a plan has one
	slots   slots
	hyper   hyperBuffer
}

// NewState allocates and initialises m's state on dev. The same seed gives the
// same weights.
func NewState(dev device.Device, m *Model, seed int64) (*State, error) {
	s := &State{m: m, places: newPlaces(m), layout: Layout{Type: kernels.F32, Accumulate: 1}}
	s.copier = copier{dev: dev, what: "the state of model " + m.Name}
	s.hyper.copier, s.slots.copier, s.slots.elems = &s.copier, &s.copier, s.places.elems
	if err := s.alloc(); err != nil {
		s.Free()
		return nil, err
	}
	if err := s.fill(seed); err != nil {
		s.Free()
		return nil, err
	}
	return s, nil
}

func (s *State) alloc() (err error) {
	if err := s.copier.open(); err != nil {
		return err
	}
	n := 0
	for _, p := range s.m.stats {
		n += p.room()
	}
	elems := s.places.elems
	for _, b := range []struct {
		buf *device.Buffer
		n   int
	}{{&s.weights, elems}, {&s.grads, elems}, {&s.stats, max(n, 1)}, {&s.hyper.buf, kernels.HyperLen}, {&s.noise, kernels.NoiseLen}} {
		if *b.buf, err = s.copier.alloc(b.n); err != nil {
			return err
		}
	}
	return s.hyper.ring.alloc(s.copier.dev)
}

func (s *State) fill(seed int64) error {
	r := splitmix.Source(seed)
	flat := make([]float32, s.places.elems)
	if err := s.copier.in(s.grads, flat); err != nil {
		return err
	}
	for i, p := range s.m.params {
		v := make([]float32, p.Len())
		p.initialise(v, &r)
		s.places.scatter(flat, i, v)
	}
	if err := s.copier.in(s.weights, flat); err != nil {
		return err
	}
	stats := make([]float32, s.stats.Size/4)
	for i, p := range s.m.stats {
		p.initialise(stats[s.places.stat[i]:][:p.Len()], &r)
	}
	if err := s.copier.in(s.stats, stats); err != nil {
		return err
	}
	if err := s.Seed(seed); err != nil {
		return err
	}
	return s.hyper.reset(s.layout)
}

// Seed restarts the noise from which dropout is drawn. The device must not be running a
// plan of the state.
func (s *State) Seed(seed int64) error {
	noise := make([]float32, kernels.NoiseLen) // its bits
	noise[kernels.NoiseSeed] = math.Float32frombits(uint32(seed))
	noise[kernels.NoiseSeedHigh] = math.Float32frombits(uint32(seed >> 32))
	return s.copier.in(s.noise, noise)
}

// Free returns the memory. No plan of the state may be in flight.
func (s *State) Free() {
	for _, b := range s.buffers() {
		s.copier.free(b)
	}
	s.hyper.ring.free(s.copier.dev)
	s.copier.close()
}

// SetHyper changes the optimizer's settings for the work enqueued on stream from
// now on. It does not wait, unless it is called eight times within one step.
func (s *State) SetHyper(stream device.Stream, h Hyper) error {
	return s.hyper.set(stream, h, s.layout)
}

// Hyper returns the settings last set.
func (s *State) Hyper() Hyper { return s.hyper.setting }

// ReadScale enqueues a copy to dst, float32[2]: the loss scale of the next step, and
// whether the last update was skipped (not 0). Only F16 uses them.
func (s *State) ReadScale(stream device.Stream, dst []byte) error {
	return s.hyper.readScale(stream, dst)
}

// Rule returns the optimizer's rule, whose Slots name what it keeps.
func (s *State) Rule() kernels.Rule { return s.layout.Rule }

// Settle says that the latest change of the optimizer will not be taken back.
func (s *State) Settle() { s.slots.former = nil }

// weight returns what a convolution or linear layer of the current type reads.
func (s *State) weight(i int) device.Buffer {
	if s.layout.Type.Size() == 2 {
		return s.places.half(s.copy, i)
	}
	return s.places.of(s.weights, i)
}

// buffers lists all buffers that a state may have, in the order in which Reload
// allocates them.
func (s *State) buffers() []*device.Buffer {
	all := []*device.Buffer{&s.weights, &s.grads, &s.stats, &s.hyper.buf, &s.noise}
	for i := range s.slots.bufs {
		all = append(all, &s.slots.bufs[i])
	}
	return append(all, &s.copy, &s.sum)
}

// Sizes lists the bytes of each of the state's allocations, in the order of Reload.
func (s *State) Sizes() []int {
	var sizes []int
	for _, b := range s.buffers() {
		if b.Size > 0 {
			sizes = append(sizes, b.Size)
		}
	}
	return sizes
}

// Image is a state on the host while it has no place on the device.
type Image [][]byte

// Unload brings the state to the host and frees its memory. No plan of it may be
// in flight, and none may run afterwards. Until Reload, nothing else may be called.
// When it fails the state stays where it is.
func (s *State) Unload() (Image, error) {
	var img Image
	c := &s.copier
	for _, b := range s.buffers() {
		if b.Size == 0 {
			img = append(img, nil)
			continue
		}
		host := make([]byte, b.Size)
		if err := c.dev.CopyOut(c.stream, host, *b); err != nil {
			return nil, errs.Wrap(err, "move to the host", c.what, "")
		}
		if err := c.sync(); err != nil {
			return nil, err
		}
		img = append(img, host)
	}
	for _, b := range s.buffers() {
		c.free(b)
	}
	return img, nil
}

// Reload gives the state memory on the device again, with what it held.
func (s *State) Reload(img Image) error {
	c := &s.copier
	for i, b := range s.buffers() {
		if img[i] == nil {
			continue
		}
		var err error
		if *b, err = c.dev.Alloc(len(img[i])); err != nil {
			return errs.Wrap(err, "allocate again", fmt.Sprintf("%d bytes of %s", len(img[i]), c.what), "")
		}
		if err := c.dev.CopyIn(c.stream, *b, img[i]); err != nil {
			return errs.Wrap(err, "move back to the device", c.what, "")
		}
		if err := c.sync(); err != nil {
			return err
		}
	}
	return nil
}
