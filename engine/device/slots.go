package device

import (
	"iter"
	"slices"
)

// Slots is a device's table of what its handles of one kind stand for. Handles count from 1,
// since their zero value is invalid. A slot that was freed is used again.
type Slots[H ~int32, T any] struct{ slots []*T }

// Add puts v into a free slot and returns its handle.
func (s *Slots[H, T]) Add(v *T) H {
	i := slices.Index(s.slots, nil)
	if i < 0 {
		i = len(s.slots)
		s.slots = append(s.slots, nil)
	}
	s.slots[i] = v
	return H(i + 1)
}

// At returns what h stands for, or nil.
func (s *Slots[H, T]) At(h H) *T {
	if h < 1 || int(h) > len(s.slots) {
		return nil
	}
	return s.slots[h-1]
}

// Free frees the slot of h.
func (s *Slots[H, T]) Free(h H) {
	if s.At(h) != nil {
		s.slots[h-1] = nil
	}
}

// All yields what is in the table.
func (s *Slots[H, T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, v := range s.slots {
			if v != nil && !yield(v) {
				return
			}
		}
	}
}
