package nn

import (
	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// slots is what an optimizer keeps beside each parameter, such as momentum: one flat
// buffer for each of the rule's Slots. It belongs to a State.
type slots struct {
	copier *copier
	elems  int
	bufs   [kernels.MaxSlots]device.Buffer // empty until a plan has the rule
	former *formerSlots                    // of the rule before, until Settle
}

// formerSlots holds, on the host, what a replaced optimizer kept.
type formerSlots struct {
	rule  kernels.Rule
	slots [][]float32
	count [3]float32
	cpad  int
}

// have reports whether the slots of a rule are allocated.
func (s *slots) have(r kernels.Rule) bool {
	n := len(r.Slots())
	return n == 0 || s.bufs[n-1].Size > 0
}

// read copies the slots of a rule to the host.
func (s *slots) read(r kernels.Rule) (values [][]float32, err error) {
	for i := range r.Slots() {
		v := make([]float32, s.elems)
		if err := s.copier.out(v, s.bufs[i]); err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

// replace allocates the slots of a rule and fills them with values, or with zeros where
// there are none. Slots that the rule does not have are freed.
func (s *slots) replace(r kernels.Rule, values [][]float32) (err error) {
	for i := range s.bufs {
		b := &s.bufs[i]
		if i >= len(r.Slots()) {
			s.copier.free(b)
			continue
		}
		if b.Size == 0 {
			if *b, err = s.copier.alloc(s.elems); err != nil {
				return err
			}
		}
		var v []float32
		if i < len(values) {
			v = values[i]
		} else {
			v = make([]float32, s.elems)
		}
		if err := s.copier.in(*b, v); err != nil {
			return err
		}
	}
	return nil
}

// setRule gives the state another rule with empty slots, or goes back to the previous
// rule with the slots that it had.
func (s *State) setRule(r kernels.Rule) error {
	was := s.layout.Rule
	if r == was && s.slots.have(r) {
		return nil
	}
	if err := s.hyper.keep(s.layout.Type); err != nil {
		return err
	}
	var now *formerSlots
	if s.slots.have(was) && r != was {
		values, err := s.slots.read(was)
		if err != nil {
			return err
		}
		now = &formerSlots{rule: was, slots: values, count: s.hyper.count, cpad: s.places.cpad}
	}
	back := s.slots.former
	if back == nil || back.rule != r || back.cpad != s.places.cpad {
		back = &formerSlots{}
	}
	if err := s.slots.replace(r, back.slots); err != nil {
		return err
	}
	s.layout.Rule, s.slots.former, s.hyper.count = r, now, back.count
	return s.hyper.reset(s.layout)
}
