package trace

import "testing"

func TestBound(t *testing.T) {
	for _, c := range []struct {
		split Split
		want  Bound
	}{
		{Split{}, BoundUnknown},
		{Split{Core: 90, Waiting: 5, Blocked: 5}, BoundCPU},
		{Split{Core: 50, Waiting: 24, Blocked: 26}, BoundCPU},
		{Split{Core: 50, Waiting: 25, Blocked: 25}, BoundCores},
		{Split{Core: 10, Waiting: 90}, BoundCores},
		{Split{Core: 20, Waiting: 29, Blocked: 51}, BoundIO},
		{Split{Blocked: 1}, BoundIO},
	} {
		if got := c.split.Bound(); got != c.want {
			t.Errorf("%+v is %q, want %q", c.split, got.Info().Name, c.want.Info().Name)
		}
	}
}

// TestHeld: what a step waited for a phase divides as that phase did, or else as its batch. Where
// neither was measured, it does not divide.
func TestHeld(t *testing.T) {
	s := Step{Stall: [NumCauses]int64{CauseRead: 100, CauseDecode: 60, CauseOrder: 1000}}
	var none Totals
	none.Add(&s)
	if none.Held != (Phases{}) {
		t.Errorf("held though nothing was measured: %+v", none.Held)
	}
	s.Work.Batch = Split{Core: 2, Waiting: 1, Blocked: 1}
	*s.Work.Phases.Of(KindDecode) = Split{Core: 1, Waiting: 3}
	var got Totals
	got.Add(&s)
	got.Add(&s)
	var want Phases
	*want.Of(KindRead) = Split{Core: 100, Waiting: 50, Blocked: 50}
	*want.Of(KindDecode) = Split{Core: 30, Waiting: 90}
	if got.Held != want || got.Work.Batch != (Split{Core: 4, Waiting: 2, Blocked: 2}) {
		t.Errorf("held %+v, want %+v; work %+v", got.Held, want, got.Work)
	}
	if sum := got.Held.All(); sum.Total() != 2*(100+60) {
		t.Errorf("the parts add up to %d", sum.Total())
	}
}
