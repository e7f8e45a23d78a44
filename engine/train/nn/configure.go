package nn

import (
	"fmt"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// channels is what a compute type stores c input channels as.
func channels(c int, t kernels.Type) int {
	if t.Size() == 2 {
		return (c + channelPad - 1) / channelPad * channelPad
	}
	return c
}

// Layout is what a state's buffers are laid out for.
type Layout struct {
	Type       kernels.Type
	Accumulate int
	Rule       kernels.Rule
}

// Configure lays the state out for plans of a compute type, accumulation and optimizer,
// as building such a plan does. Plans of another layout must not be in flight, and must
// not run afterwards. Another optimizer begins with empty slots.
//
// The change can be taken back by another Configure without loss: the sum of
// gradients stays until DropSum, the slots of the optimizer before until Settle, and
// each type's loss scale is kept.
func (s *State) Configure(l Layout) error {
	// The slots of before come back in the layout of before.
	if back := s.former != nil && s.former.rule == l.Rule; !back {
		if err := s.setRule(l.Rule); err != nil {
			return err
		}
	}
	if err := s.convert(l.Type, max(l.Accumulate, 1)); err != nil {
		return err
	}
	return s.setRule(l.Rule)
}

// convert is Configure but for the slots.
func (s *State) convert(t kernels.Type, accumulate int) error {
	cpad := channels(s.m.In.C, t)
	if t == s.typ && accumulate == s.accumulate && cpad == s.cpad {
		return nil
	}
	if err := s.keepScale(); err != nil {
		return err
	}
	if err := s.repack(cpad); err != nil {
		return err
	}
	if t != s.typ {
		if t.Size() == 2 && s.copy.Size == 0 {
			b, err := s.dev.Alloc(2 * s.elems)
			if err != nil {
				return errs.Wrap(err, "allocate", fmt.Sprintf("%d bytes of %s weights of model %s", 2*s.elems, t, s.m.Name), "")
			}
			s.copy = b
		}
		s.typ = t
		if err := s.resetHyper(); err != nil {
			return err
		}
		if err := s.refreshCopy(); err != nil {
			return err
		}
	}
	return s.setAccumulate(accumulate)
}

// repack moves the stem's weights, slots and sum of gradients to cpad channels.
func (s *State) repack(cpad int) error {
	if cpad == s.cpad {
		return nil
	}
	for i, p := range s.m.params {
		if !p.stem {
			continue
		}
		v := make([]float32, p.Len())
		room := make([]float32, p.room())
		for _, flat := range append([]device.Buffer{s.weights, s.sum}, s.slots[:]...) {
			if flat.Size == 0 {
				continue
			}
			buf := flat.Slice(4*s.offsets[i], 4*p.room())
			if err := s.out(room, buf); err != nil {
				return err
			}
			p.gather(v, room, s.cpad)
			clear(room)
			p.scatter(room, v, cpad)
			if err := s.in(buf, room); err != nil {
				return err
			}
		}
		clear(room)
		if err := s.in(s.grads.Slice(4*s.offsets[i], 4*p.room()), room); err != nil {
			return err
		}
	}
	s.cpad = cpad
	return nil
}

// refreshCopy casts the master weights to the 16-bit copy.
func (s *State) refreshCopy() error {
	if s.typ.Size() != 2 {
		return nil
	}
	cast := device.Launch{Op: kernels.Cast{N: s.elems, Type: s.typ}, Bufs: []device.Buffer{s.weights, s.copy}, Layer: "weights", Phase: device.PhaseOptimizer}
	p, err := s.dev.Prepare([]device.Launch{cast})
	if err != nil {
		return errs.Wrap(err, "cast to "+s.typ.String(), "the weights of model "+s.m.Name, "")
	}
	defer s.dev.Release(p)
	if err := s.dev.Launch(s.stream, p); err != nil {
		return errs.Wrap(err, "cast to "+s.typ.String(), "the weights of model "+s.m.Name, "")
	}
	return s.sync()
}

// setAccumulate prepares for summing the gradients of k batches, by which the optimizer
// divides.
func (s *State) setAccumulate(k int) error {
	if k == s.accumulate {
		return nil
	}
	if k > 1 && s.sum.Size == 0 {
		b, err := s.alloc32(s.elems)
		if err != nil {
			return err
		}
		s.sum = b
		if err := s.DropSum(); err != nil {
			return err
		}
	}
	s.accumulate = k
	return s.resetHyper()
}

// DropSum clears the gradients accumulated so far. A change of type or of
// accumulation needs it: the sum has the former type's loss scale and counts the
// former number of batches. It waits for its own copy.
func (s *State) DropSum() error {
	if s.sum.Size == 0 {
		return nil
	}
	return s.in(s.sum, make([]float32, s.elems))
}
