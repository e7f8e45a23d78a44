package nn

import (
	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// formerSlots is what an optimizer that was replaced had, on the host.
type formerSlots struct {
	rule  kernels.Rule
	slots [][]float32
	count [3]float32
	cpad  int
}

// setRule gives the state the slots of another rule, empty, or those it had when the
// rule is the one before.
func (s *State) setRule(r kernels.Rule) error {
	if r == s.rule && s.hasSlots(r) {
		return nil
	}
	if err := s.keepScale(); err != nil {
		return err
	}
	var now *formerSlots
	if s.hasSlots(s.rule) && r != s.rule {
		now = &formerSlots{rule: s.rule, count: s.count, cpad: s.cpad}
		for i := range s.rule.Slots() {
			v := make([]float32, s.elems)
			if err := s.out(v, s.slots[i]); err != nil {
				return err
			}
			now.slots = append(now.slots, v)
		}
	}
	back := s.former
	if back == nil || back.rule != r || back.cpad != s.cpad {
		back = &formerSlots{}
	}
	for i := range s.slots {
		b := &s.slots[i]
		switch {
		case i >= len(r.Slots()):
			if b.Size > 0 {
				s.dev.Free(*b)
				*b = device.Buffer{}
			}
			continue
		case b.Size == 0:
			var err error
			if *b, err = s.alloc32(s.elems); err != nil {
				return err
			}
		}
		v := make([]float32, s.elems)
		if i < len(back.slots) {
			v = back.slots[i]
		}
		if err := s.in(*b, v); err != nil {
			return err
		}
	}
	s.rule, s.former, s.count = r, now, back.count
	return s.resetHyper()
}

func (s *State) hasSlots(r kernels.Rule) bool {
	n := len(r.Slots())
	return n == 0 || s.slots[n-1].Size > 0
}

// Settle says that the latest change of the optimizer will not be taken back.
func (s *State) Settle() { s.former = nil }

// Rule is the optimizer's, whose Slots name what it keeps.
func (s *State) Rule() kernels.Rule { return s.rule }
