package nn

import (
	"fmt"
	"math"
	"runtime"
	"unsafe"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/splitmix"
	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// State is what a model learns and what learning needs, on a device: master
// weights, gradients, the optimizer's slots, running statistics and
// hyper-parameters. It survives plans: batch size, compute type, accumulation and
// optimizer change by building another plan on the same State.
//
// Its parameters lie one behind the other in flat buffers, those that weight decay may
// leave alone (biases and norms) last, so that the optimizer is one launch.
type State struct {
	dev    device.Device
	m      *Model
	stream device.Stream
	done   device.Event

	elems   int   // of each flat buffer
	offsets []int // of Model.params, in elements
	statOff []int // of Model.stats, in elements
	weights device.Buffer
	grads   device.Buffer
	slots   [kernels.MaxSlots]device.Buffer // of the rule; empty until a plan has one
	stats   device.Buffer
	hyper   device.Buffer
	noise   device.Buffer // kernels.Noise: what dropout is drawn from
	sum     device.Buffer // accumulated gradients; empty until a plan accumulates
	copy    device.Buffer // the weights in a 16-bit type; empty until a plan has one

	// What the buffers are laid out for.
	typ        kernels.Type
	cpad       int // channels of the stem's weights
	accumulate int
	rule       kernels.Rule
	former     *formerSlots               // of the rule before, until Settle
	count      [3]float32                 // HyperStep and what follows from it, while hyper is rewritten
	scales     map[kernels.Type][]float32 // hyper as a type left it, with its loss scale

	setting Hyper
	ring    hyperRing
}

// NewState allocates and initialises m's state on dev. The same seed gives the
// same weights.
func NewState(dev device.Device, m *Model, seed int64) (*State, error) {
	s := &State{dev: dev, m: m, typ: kernels.F32, cpad: m.In.C, accumulate: 1}
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
	s.offsets, s.elems = s.m.offsets(), s.m.elems()
	n := 0
	for _, p := range s.m.stats {
		s.statOff = append(s.statOff, n)
		n += p.room()
	}
	if s.stream, err = s.dev.NewStream("state"); err != nil {
		return errs.Wrap(err, "create", "a stream for "+s.what(), "")
	}
	if s.done, err = s.dev.NewEvent(); err != nil {
		return errs.Wrap(err, "create", "an event for "+s.what(), "")
	}
	for _, b := range []struct {
		buf *device.Buffer
		n   int
	}{{&s.weights, s.elems}, {&s.grads, s.elems}, {&s.stats, max(n, 1)}, {&s.hyper, kernels.HyperLen}, {&s.noise, kernels.NoiseLen}} {
		if *b.buf, err = s.alloc32(b.n); err != nil {
			return err
		}
	}
	return s.ring.alloc(s.dev)
}

func (s *State) alloc32(elems int) (device.Buffer, error) {
	b, err := s.dev.Alloc(4 * elems)
	if err != nil {
		return b, errs.Wrap(err, "allocate", fmt.Sprintf("%d bytes of %s", 4*elems, s.what()), "")
	}
	return b, nil
}

func (s *State) fill(seed int64) error {
	r := splitmix.Source(seed)
	flat := make([]float32, s.elems)
	if err := s.in(s.grads, flat); err != nil {
		return err
	}
	for i, p := range s.m.params {
		v := make([]float32, p.Len())
		p.initialise(v, &r)
		p.scatter(flat[s.offsets[i]:], v, s.cpad)
	}
	if err := s.in(s.weights, flat); err != nil {
		return err
	}
	stats := make([]float32, s.stats.Size/4)
	for i, p := range s.m.stats {
		p.initialise(stats[s.statOff[i]:][:p.Len()], &r)
	}
	if err := s.in(s.stats, stats); err != nil {
		return err
	}
	if err := s.Seed(seed); err != nil {
		return err
	}
	return s.resetHyper()
}

// Seed begins the noise that dropout is drawn from anew. The device must not be running
// a plan of the state.
func (s *State) Seed(seed int64) error {
	noise := make([]float32, kernels.NoiseLen) // its bits
	noise[kernels.NoiseSeed] = math.Float32frombits(uint32(seed))
	noise[kernels.NoiseSeedHigh] = math.Float32frombits(uint32(seed >> 32))
	return s.in(s.noise, noise)
}

// Free returns the memory. No plan of the state may be in flight.
func (s *State) Free() {
	for _, b := range s.buffers() {
		if b.Size > 0 {
			s.dev.Free(*b)
			*b = device.Buffer{}
		}
	}
	s.ring.free(s.dev)
	if s.done != 0 {
		s.dev.FreeEvent(s.done)
		s.done = 0
	}
}

// what is what errors call it.
func (s *State) what() string { return "the state of model " + s.m.Name }

// in and out copy synchronously. The device must not be using the buffer.
func (s *State) in(dst device.Buffer, v []float32) error {
	if err := s.dev.CopyIn(s.stream, dst.Slice(0, 4*len(v)), bytesOf(v)); err != nil {
		return errs.Wrap(err, "write", s.what(), "")
	}
	err := s.sync()
	runtime.KeepAlive(v) // the device may read it until now
	return err
}

func (s *State) out(v []float32, src device.Buffer) error {
	if err := s.dev.CopyOut(s.stream, bytesOf(v), src.Slice(0, 4*len(v))); err != nil {
		return errs.Wrap(err, "read", s.what(), "")
	}
	return s.sync()
}

func (s *State) sync() error {
	err := s.dev.Record(s.stream, s.done)
	if err == nil {
		err = s.dev.Sync(s.done)
	}
	return errs.Wrap(err, "wait for the copies of", s.what(), "")
}

// bytesOf views v's memory.
func bytesOf(v []float32) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), 4*len(v))
}

// param is where parameter i lies in one of the flat float32 buffers.
func (s *State) param(flat device.Buffer, i int) device.Buffer {
	return flat.Slice(4*s.offsets[i], 4*s.stored(i))
}

// stored is the number of elements of parameter i on the device.
func (s *State) stored(i int) int {
	p := s.m.params[i]
	if p.stem {
		return p.Len() / p.Shape[1] * s.cpad
	}
	return p.Len()
}

// weight is what a convolution or linear layer of the current type reads.
func (s *State) weight(i int) device.Buffer {
	if s.typ.Size() == 2 {
		return s.copy.Slice(2*s.offsets[i], 2*s.stored(i))
	}
	return s.param(s.weights, i)
}

func (s *State) stat(i int) device.Buffer {
	return s.stats.Slice(4*s.statOff[i], 4*s.m.stats[i].Len())
}
