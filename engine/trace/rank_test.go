package trace

import (
	"slices"
	"strings"
	"testing"
)

func TestRanks(t *testing.T) {
	var clock tickingClock
	r := NewRecorder(&clock, 0)
	s := NewSession(Meta{})
	for i := range int64(3) { // ns 0, 10, 20
		for rank := range 2 {
			k := int64(rank) * i
			r.Rank(Rank{Rank: rank, Steps: 5 * i, Wait: k, Time: 10 * i, Body: 4 * k, Backward: 2 * k})
		}
		r.Gauge("rank_x_steps", 1)
		r.Gauge("rank_1_steps_of_another", 1)
		clock += 10
	}
	b := &Drained{}
	r.drain(b)
	s.Add(b)
	snap := s.Snapshot(0, 0)
	if got, want := snap.Ranks(0, 30), []Rank{{Steps: 10, Time: 20, Rank: 0}, {Rank: 1, Steps: 10, Wait: 2, Time: 20, Body: 8, Backward: 4}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := snap.Ranks(11, 30), []Rank{{Rank: 0, Steps: 5, Time: 10}, {Rank: 1, Steps: 5, Wait: 1, Time: 10, Body: 4, Backward: 2}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := snap.Ranks(21, 30); got != nil {
		t.Errorf("%v of a time without a step", got)
	}
}

// TestParts: a step is made of the parts that are told apart and of the rest. Where nothing is told
// apart, there are no parts.
// TestInStep: two ranks that go in step do so across a change of settings, though one's counts come later.
func TestInStep(t *testing.T) {
	const second = int64(1e9)
	at := func(ns int64) (k Rank) { // 4 steps a second, and 20 from the fifth second on
		k.Steps = ns * 4 / second
		if ns > 5*second {
			k.Steps += (ns - 5*second) * 16 / second
		}
		k.Time, k.Wait = ns, ns/2
		return k
	}
	s := &Snapshot{Gauges: map[string][]Point{}}
	for i := range int64(9) {
		for rank, late := range []int64{0, 900e6} {
			k := at(max(0, i*second-late))
			for n, c := range rankCounts[:4] {
				name := rankGauges(rank)[n]
				s.Gauges[name] = append(s.Gauges[name], Point{T: i*second + int64(n), V: float64(*c.of(&k))})
			}
		}
	}
	of := s.Ranks(0, 8*second+9)
	if a, b := of[0].Step(), of[1].Step(); b < a*11/10 {
		t.Fatalf("of the same time, steps take %d and %d ns: there is nothing to align", a, b)
	}
	of = s.InStep(0, 8*second+9)
	if a, b := &of[0], &of[1]; a.Steps != b.Steps || b.Step() > a.Step()*102/100 || a.Step() > b.Step()*102/100 || 100*b.Wait < 98*b.Time/2 {
		t.Errorf("of the same steps: %+v and %+v", *a, *b)
	}
	for name, points := range s.Gauges { // a rank that stopped after the second second
		if of, _ := strings.CutPrefix(name, "rank_1_"); of != name {
			s.Gauges[name] = points[:3]
		}
	}
	if got, want := s.InStep(0, 8*second+9), s.Ranks(0, 8*second+9); !slices.Equal(got, want) {
		t.Errorf("a rank stopped: %+v, want %+v", got, want)
	}
}

func TestParts(t *testing.T) {
	k := Rank{Steps: 10, Wait: 100, Time: 402, Body: 300, Backward: 200, Optimizer: 40}
	sum := func(parts []Part) (ns int64) {
		for _, p := range parts {
			ns += p.Step
		}
		return ns
	}
	if got := k.Parts(Outside); len(got) != 4 || sum(got) != 40 {
		t.Errorf("%v: less than a hundredth outside of the loop is no part", got)
	}
	k.Time = 800
	want := []Part{{"getting a batch", 10, 0.125}, {"backward", 20, 0.25}, {"optimizer", 4, 0.05}, {"forward + script code", 6, 0.075}, {Outside, 40, 0.5}}
	if got := k.Parts(Outside); !slices.Equal(got, want) || sum(got) != k.Step() {
		t.Errorf("%v, want %v", got, want)
	}
	if got := k.Parts(Neither); got[3].Name != Neither || sum(got) != k.Step() {
		t.Errorf("%v where nothing tells what the loop waits for", got)
	}
	k.Backward, k.Optimizer = 0, 0
	if got := k.Parts(Outside); got != nil {
		t.Errorf("%v of a step of which nothing is known", got)
	}
}

// tickingClock is a clock that is set by hand.
type tickingClock int64

func (c *tickingClock) Now() int64 { return int64(*c) }
