package attribution

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// rowsOf are the rows of segments of so many ms a step, 100 steps each.
func rowsOf(change func(s *trace.Step), ms ...int64) []SegmentStats {
	return Segments(segmentsOf(change, ms...))
}

func segmentsOf(change func(s *trace.Step), ms ...int64) *trace.Snapshot {
	snap := &trace.Snapshot{}
	var t int64
	for g, d := range ms {
		snap.Segments = append(snap.Segments, trace.Segment{Index: int32(g)})
		for range 100 {
			s := trace.Step{Index: int32(len(snap.Recent)), Segment: int32(g), Samples: 32, Start: t, End: t + d*1e6, Busy: d * 1e6}
			if change != nil {
				change(&s)
			}
			t = s.End
			snap.Recent = append(snap.Recent, s)
		}
	}
	snap.Digest = *trace.Digested(snap.Recent)
	return snap
}

// TestTurnsCount: settings that took turns are compared by their experiment, from either side,
// whatever the rows' own steps say. An experiment without an answer does not count.
func TestTurnsCount(t *testing.T) {
	settings := func(workers string) []knob.Setting { return []knob.Setting{{Name: "num_workers", Value: workers}} }
	for _, c := range []struct {
		pairs, rests int
		ratio        float64
	}{{8, 8, 1.5}, {3, 0, 2}} {
		s := segmentsOf(nil, 100, 100, 50, 100)
		for i, workers := range []string{"1", "4", "4", "1"} {
			s.Segments[i].Knobs = settings(workers)
		}
		x := trace.Experiment{Kind: trace.Paired, Start: 1, End: 2, First: 1, Last: 1, A: settings("1"), B: settings("4")}
		for range c.pairs {
			x.Pairs = append(x.Pairs, trace.Pair{A: trace.Block{Steps: 10, Samples: 200, Active: 2e9, Busy: 1e9}, B: trace.Block{Steps: 15, Samples: 300, Active: 2e9, Busy: 1e9}})
		}
		s.Experiments = []trace.Experiment{x}
		rows := Segments(s)
		there, back := &rows[1].VsA, &rows[2].VsBefore
		if len(rows) != 3 || there.Pairs != c.rests || back.Pairs != c.rests || math.Abs(there.Throughput.Ratio/c.ratio-1) > 1e-6 || math.Abs(back.Throughput.Ratio*c.ratio-1) > 1e-6 {
			t.Errorf("%d pairs: %v by %q, back %v by %q", c.pairs, &there.Throughput, there.ByTurns(), &back.Throughput, back.ByTurns())
		}
	}
}

// Segments are compared by their steady steps, with A and with the one before.
func TestSegmentsAreCompared(t *testing.T) {
	near := func(c *stats.Change, answer stats.Answer, ratio float64) bool {
		return c.Answer == answer && math.Abs(c.Ratio-ratio) < 1e-6
	}
	rows := rowsOf(nil, 100, 50, 100)
	if !near(&rows[1].VsA.Throughput, stats.Different, 2) || !near(&rows[2].VsA.Throughput, stats.Same, 1) || !near(&rows[2].VsBefore.Throughput, stats.Different, 0.5) {
		t.Errorf("%v, %v, %v", &rows[1].VsA.Throughput, &rows[2].VsA.Throughput, &rows[2].VsBefore.Throughput)
	}
	if !near(&rows[1].VsA.Busy, stats.Different, 0.5) {
		t.Errorf("busy: %v", &rows[1].VsA.Busy)
	}
	if c := Compare(rows, &rows[2], &rows[1]); !near(&c.Throughput, stats.Different, 2) {
		t.Errorf("%v", &c.Throughput)
	}
	// Batches of different sizes are compared per sample.
	rows = rowsOf(func(s *trace.Step) { s.Samples <<= s.Segment }, 100, 200)
	if !near(&rows[1].VsA.Throughput, stats.Same, 1) {
		t.Errorf("a doubled batch: %v", &rows[1].VsA.Throughput)
	}
	// Pauses and transitions do not count.
	rows = rowsOf(func(s *trace.Step) {
		switch s.Index {
		case 150:
			s.Stall[trace.CausePaused] = 9e9
			s.End += 9e9
		case 100, 101:
			s.Flags = trace.FlagTransition
			s.End += 5e9
		}
	}, 100, 100)
	if !near(&rows[1].VsA.Throughput, stats.Same, 1) {
		t.Errorf("a pause and a transition: %v", &rows[1].VsA.Throughput)
	}
}

// TestMergedStepsKeepTheirSpread: merged steps still tell how much single ones vary, even where a
// slow wave is smaller than their noise.
func TestMergedStepsKeepTheirSpread(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	steps := make([]trace.Step, 8000)
	var at int64
	for i := range steps {
		took := int64(20e6 * (1 + 0.1*r.NormFloat64() + 0.015*math.Sin(float64(i)/60)))
		steps[i] = trace.Step{Index: int32(i), Samples: 32, Start: at, End: at + took, Busy: took}
		at += took
	}
	snap := &trace.Snapshot{Segments: []trace.Segment{{}}, Recent: steps, Digest: *trace.Digested(steps)}
	m := Segments(snap)[0].Stretch
	if m.Blocks > trace.MaxBlocks || m.Steps != 8000 {
		t.Fatalf("%d blocks of %d steps", m.Blocks, m.Steps)
	}
	if c := m.Step.Correlation; c > 4*20*time.Millisecond {
		t.Errorf("steps of 20 ms are correlated over %v", c)
	}
}
