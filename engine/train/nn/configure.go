package nn

import (
	"fmt"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// channels returns the channels that a compute type stores c input channels as.
func channels(c int, t kernels.Type) int {
	if t.Size() == 2 {
		return (c + channelPad - 1) / channelPad * channelPad
	}
	return c
}

// Layout is what determines the layout of a state's buffers.
type Layout struct {
	Type       kernels.Type
	Accumulate int
	Rule       kernels.Rule
}

// Configure lays the state out for plans of a compute type, accumulation and optimizer,
// as building such a plan does. Plans of another layout must not be in flight, and must
// not run afterwards. Another optimizer begins with empty slots.
//
// Another Configure can take the change back without loss. The sum of gradients stays
// until DropSum, and the slots of the optimizer before stay until Settle. Each type's
// loss scale is kept.
func (s *State) Configure(l Layout) error {
	// The slots of the previous rule are kept in the previous layout. So if the state goes
	// back to that rule, the layout goes back first.
	if back := s.slots.former != nil && s.slots.former.rule == l.Rule; !back {
		if err := s.setRule(l.Rule); err != nil {
			return err
		}
	}
	if err := s.convert(l.Type, max(l.Accumulate, 1)); err != nil {
		return err
	}
	return s.setRule(l.Rule)
}

// convert is Configure without the slots.
func (s *State) convert(t kernels.Type, accumulate int) error {
	cpad := channels(s.m.In.C, t)
	if t == s.layout.Type && accumulate == s.layout.Accumulate && cpad == s.places.cpad {
		return nil
	}
	if err := s.hyper.keep(s.layout.Type); err != nil {
		return err
	}
	if err := s.repack(cpad); err != nil {
		return err
	}
	if err := s.setType(t); err != nil {
		return err
	}
	return s.setAccumulate(accumulate)
}

// repack moves the stem's weights, slots and sum of gradients to cpad channels.
func (s *State) repack(cpad int) error {
	if cpad == s.places.cpad {
		return nil
	}
	for i, p := range s.m.params {
		if !p.stem {
			continue
		}
		v := make([]float32, p.Len())
		room := make([]float32, p.room())
		for _, flat := range append([]device.Buffer{s.weights, s.sum}, s.slots.bufs[:]...) {
			if flat.Size == 0 {
				continue
			}
			buf := s.places.room(flat, i)
			if err := s.copier.out(room, buf); err != nil {
				return err
			}
			p.gather(v, room, s.places.cpad)
			clear(room)
			p.scatter(room, v, cpad)
			if err := s.copier.in(buf, room); err != nil {
				return err
			}
		}
		clear(room)
		if err := s.copier.in(s.places.room(s.grads, i), room); err != nil {
			return err
		}
	}
	s.places.cpad = cpad
	return nil
}

// setType changes the compute type, with its loss scale and its copy of the weights.
func (s *State) setType(t kernels.Type) error {
	if t == s.layout.Type {
		return nil
	}
	if t.Size() == 2 && s.copy.Size == 0 {
		elems := s.places.elems
		b, err := s.copier.dev.Alloc(2 * elems)
		if err != nil {
			return errs.Wrap(err, "allocate", fmt.Sprintf("%d bytes of %s weights of model %s", 2*elems, t, s.m.Name), "")
		}
		s.copy = b
	}
	s.layout.Type = t
	if err := s.hyper.reset(s.layout); err != nil {
		return err
	}
	return s.refreshCopy()
}

// refreshCopy casts the master weights to the 16-bit copy, if the type has one.
func (s *State) refreshCopy() error {
	t := s.layout.Type
	if t.Size() != 2 {
		return nil
	}
	cast := device.Launch{Op: kernels.Cast{N: s.places.elems, Type: t}, Bufs: []device.Buffer{s.weights, s.copy}, Layer: "weights", Phase: device.PhaseOptimizer}
	return errs.Wrap(s.copier.run(cast), "cast to "+t.String(), "the weights of model "+s.m.Name, "")
}

// setAccumulate prepares for summing the gradients of k batches. The optimizer divides
// by k.
func (s *State) setAccumulate(k int) error {
	if k == s.layout.Accumulate {
		return nil
	}
	if k > 1 && s.sum.Size == 0 {
		b, err := s.copier.alloc(s.places.elems)
		if err != nil {
			return err
		}
		s.sum = b
		if err := s.DropSum(); err != nil {
			return err
		}
	}
	s.layout.Accumulate = k
	return s.hyper.reset(s.layout)
}

// DropSum clears the gradients accumulated so far. A change of type or of
// accumulation needs it: the sum has the former type's loss scale and counts the
// former number of batches. It waits for its own copy.
func (s *State) DropSum() error {
	if s.sum.Size == 0 {
		return nil
	}
	return s.copier.in(s.sum, make([]float32, s.places.elems))
}
