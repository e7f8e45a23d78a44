package tui

import (
	"math"
	"testing"

	"dev.gpustall/engine/trace"
)

// TestPictureOfAMoment shows nothing later than the moment.
func TestPictureOfAMoment(t *testing.T) {
	run := session()
	s := run.Snapshot(0, math.MaxInt64)
	var p picture
	for at := int64(0); at <= s.Now; at += 250e6 {
		p.compute(s, at)
		for i := range p.snap.Recent {
			if p.snap.Recent[i].End > at {
				t.Fatalf("at %d there is step %d, which ends at %d", at, i, p.snap.Recent[i].End)
			}
		}
		if p.floor > p.p50 {
			t.Fatalf("at %d the compute floor of a step, %d ns, is over its median, %d ns", at, p.floor, p.p50)
		}
		if p.next && p.seg.Start > at {
			t.Fatalf("at %d configuration #%d is in force, which starts at %d", at, p.seg.Index, p.seg.Start)
		}
		for _, st := range p.steps {
			if st.Segment != p.steps[0].Segment {
				t.Fatalf("at %d the window mixes configurations", at)
			}
		}
	}
	if len(p.steps) == 0 || p.util <= 0 || p.util > 1 {
		t.Errorf("the last picture has %d steps and utilisation %v", len(p.steps), p.util)
	}
	if len(s.Recent) == len(p.snap.Recent) && len(s.Recent) == 0 {
		t.Error("no steps at all")
	}
}

// TestWindowIsSettled: the steps of a transition are left out once others exist.
func TestWindowIsSettled(t *testing.T) {
	run := session()
	var p picture
	p.compute(run.Snapshot(0, 0), run.Now())
	for _, st := range p.steps {
		if st.Flags&trace.FlagTransition != 0 {
			t.Fatalf("step %d of the transition is in the window", st.Index)
		}
	}
	if p.seg.Index != 2 || p.seg.TransitionSteps == 0 {
		t.Fatalf("the session ends in %+v", p.seg)
	}
}

// TestEmptySession: nothing divides by zero or indexes nothing.
func TestEmptySession(t *testing.T) {
	src := still{&trace.Snapshot{}}
	for _, replay := range []bool{false, true} {
		m := New(Options{Source: src, Replay: replay})
		for _, size := range sizes {
			m.w, m.h = size[0], size[1]
			m.look()
			m.View()
		}
	}
}

type still struct{ s *trace.Snapshot }

func (s still) Snapshot(int64, int64) *trace.Snapshot { c := *s.s; return &c }
