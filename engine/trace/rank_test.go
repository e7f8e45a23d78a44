package trace

import (
	"slices"
	"testing"
)

func TestRanks(t *testing.T) {
	var clock tickingClock
	r := NewRecorder(&clock, 0)
	s := NewSession(Meta{})
	for i := range int64(3) { // ns 0, 10, 20
		for rank := range 2 {
			r.Rank(Rank{Rank: rank, Steps: 5 * i, Wait: int64(rank) * i, Time: 10 * i})
		}
		r.Gauge("rank_x_steps", 1)
		r.Gauge("rank_1_steps_of_another", 1)
		clock += 10
	}
	b := &Batch{}
	r.drain(b)
	s.Add(b)
	snap := s.Snapshot(0, 0)
	if got, want := snap.Ranks(0, 30), []Rank{{0, 10, 0, 20}, {1, 10, 2, 20}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := snap.Ranks(11, 30), []Rank{{0, 5, 0, 10}, {1, 5, 1, 10}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := snap.Ranks(21, 30); got != nil {
		t.Errorf("%v of a time without a step", got)
	}
}

// tickingClock is a clock that is set by hand.
type tickingClock int64

func (c *tickingClock) Now() int64 { return int64(*c) }
