package device

import (
	"errors"
	"slices"
	"testing"
)

func TestSlots(t *testing.T) {
	var s Slots[Event, string]
	add := func(v string) Event { return s.Add(&v) }
	a, b, c := add("a"), add("b"), add("c")
	if a != 1 || b != 2 || c != 3 {
		t.Errorf("handles %d, %d, %d", a, b, c)
	}
	s.Free(b)
	s.Free(b)
	for _, h := range []Event{-1, 0, b, 4} {
		if v := s.At(h); v != nil {
			t.Errorf("handle %d is %q", h, *v)
		}
	}
	if d := add("d"); d != b || *s.At(d) != "d" {
		t.Errorf("the free slot was not used: handle %d", d)
	}
	var all []string
	for v := range s.All() {
		all = append(all, *v)
	}
	if !slices.Equal(all, []string{"a", "d", "c"}) {
		t.Errorf("%v", all)
	}
}

func TestTimings(t *testing.T) {
	var ts Timings[int]
	var taken []Timing
	for i := range TimedRuns {
		r, timing := ts.Next(7)
		if timing.Program() != 7 {
			t.Fatalf("timing %d is of program %d", timing, timing.Program())
		}
		*r = i
		ts.Take(timing)
		taken = append(taken, timing)
	}
	if r, timing := ts.Next(7); r != nil || timing != 0 {
		t.Error("more launches are timed than can be unread")
	}
	for i, timing := range taken {
		if r, err := ts.At(timing); err != nil || *r != i {
			t.Errorf("timing %d: %v, %v", timing, r, err)
		}
	}
	ts.Read(taken[2])
	var misuse error
	if _, misuse = ts.At(taken[2]); misuse == nil || errors.Is(misuse, ErrNotReady) {
		t.Errorf("a timing was read twice: %v", misuse)
	}
	if _, timing := ts.Next(7); timing != taken[2] {
		t.Errorf("the next is %d, not the one that was read", timing)
	}
}
