package panel

import (
	"math"
	"testing"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/internal/demo"
)

// TestPictureOfAMoment shows nothing later than the moment.
func TestPictureOfAMoment(t *testing.T) {
	run := demo.Session()
	s := run.Snapshot(0, math.MaxInt64)
	var p Picture
	for at := int64(0); at <= s.Now; at += 250e6 {
		p.Compute(s, at)
		for i := range p.Snap.Recent {
			if p.Snap.Recent[i].End > at {
				t.Fatalf("at %d there is step %d, which ends at %d", at, i, p.Snap.Recent[i].End)
			}
		}
		steps := attribution.Window(&p.Snap)
		if w := newWindow(steps); w.Floor > w.P50 {
			t.Fatalf("at %d the compute floor of a step, %d ns, is over its median, %d ns", at, w.Floor, w.P50)
		}
		if p.HasSegment && p.Segment.Start > at {
			t.Fatalf("at %d configuration #%d is in force, which starts at %d", at, p.Segment.Index, p.Segment.Start)
		}
		for _, st := range steps {
			if st.Segment != steps[0].Segment {
				t.Fatalf("at %d the window mixes configurations", at)
			}
		}
	}
	if w := newWindow(attribution.Window(&p.Snap)); w.Steps() == 0 || w.Util <= 0 || w.Util > 1 {
		t.Errorf("the last window has %d steps and utilisation %v", w.Steps(), w.Util)
	}
	if len(s.Recent) == len(p.Snap.Recent) && len(s.Recent) == 0 {
		t.Error("no steps at all")
	}
}

// TestWindowIsSettled: the window leaves out the steps of a transition once there are others.
func TestWindowIsSettled(t *testing.T) {
	run := demo.Session()
	var p Picture
	p.Compute(run.Snapshot(0, 0), run.Now())
	for _, st := range attribution.Window(&p.Snap) {
		if st.Flags&trace.FlagTransition != 0 {
			t.Fatalf("step %d of the transition is in the window", st.Index)
		}
	}
	if p.Segment.Index != 2 || p.Segment.TransitionSteps == 0 {
		t.Fatalf("the session ends in %+v", p.Segment)
	}
}

// TestOneWindow: verdict, gauges and breakdown are about the same steps: 5 s or 50 steps, whichever
// is longer. The row of the current configuration is about all its steps, like its comparison with
// A.
func TestOneWindow(t *testing.T) {
	for _, tt := range []struct {
		step  int64 // ns
		steps int
		want  int64
	}{
		{10e6, 2000, 500}, {200e6, 100, 50}, {10e6, 30, 30}, {1e6, 8000, attribution.WindowMost},
	} {
		var snap trace.Snapshot
		for i := range tt.steps {
			at := int64(i) * tt.step
			snap.Recent = append(snap.Recent, trace.Step{Index: int32(i), Start: at, End: at + tt.step, Busy: tt.step, Samples: 1})
		}
		if w := newWindow(attribution.Window(&snap)); w.Steps() != tt.want {
			t.Errorf("%d steps of %d ns make a window of %d, want %d", tt.steps, tt.step, w.Steps(), tt.want)
		}
	}
	run := demo.Session()
	run.Until(20_000)
	var p Picture
	p.Compute(run.Snapshot(0, math.MaxInt64), run.Now())
	snap := p.Snap
	found := Analyse(&snap, run.Snapshot, nil)
	w := &found.Win
	e := NewExperiments()
	e.fill(&View{Pic: &p, Win: w, Analysis: &found.Analysis})
	row := &e.rows[len(e.rows)-1]
	if v := found.Told.Verdict; int64(v.Steps) != w.Steps() || row.steps != int64(row.Steps) || row.rate != row.SamplesPerSecond || row.steps <= w.Steps() {
		t.Errorf("the verdict is of %d steps, the gauges of %d, the row of %d", v.Steps, w.Steps(), row.steps)
	}
}
