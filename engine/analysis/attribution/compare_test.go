package attribution

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// TestAnswersStay: an answer stays when the host's steps turn out to be correlated for longer than
// it seemed. It goes if later steps contradict it.
func TestAnswersStay(t *testing.T) {
	for _, c := range []struct {
		name   string
		later  float64 // ms that a step of B takes in the end, on average
		answer stats.Answer
	}{
		{"as before", 50, stats.Different},
		{"slower than it was", 90, stats.Unknown},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		s := &trace.Snapshot{Segments: []trace.Segment{{Index: 0}, {Index: 1}}}
		var at int64
		for i := range int32(700) {
			ms := 100.0
			switch {
			case i >= 100+128:
				ms = c.later * (1 + 0.6*float64(i/40%2) - 0.3) // in waves
			case i >= 100:
				ms = 50
			}
			d := int64(1e6 * ms * (1 + 0.2*r.Float64()))
			step := trace.Step{Index: i, Samples: 32, Start: at, End: at + d, Busy: d}
			if i >= 100 {
				step.Segment = 1
			}
			at = step.End
			s.Recent = append(s.Recent, step)
		}
		s.Digest = *trace.Digested(s.Recent)
		rows := Segments(s)
		now := stats.Compare(rows[0].Stretch, rows[1].Stretch, history(rows), stats.DefaultMargin).Throughput
		if now.Answer != stats.Unknown || !now.Missing.OfA() {
			t.Errorf("%s: all steps tell already: %v", c.name, &now)
		}
		if got := rows[1].VsA.Throughput; got.Answer != c.answer || got.Answer == stats.Different && (got.Lo < 1.8 || got.Hi > 2.3) {
			t.Errorf("%s: %v", c.name, &got)
		} else if got.Ratio != now.Ratio || got.Lo < now.Lo || got.Hi > now.Hi {
			t.Errorf("%s: %v, of all steps %v", c.name, &got, now.Estimate())
		}
	}
}

// TestEqualSettings: settings that are measured again are pooled, and comparisons with them become
// surer. Where the two differ, the drift is named and nothing is pooled.
func TestEqualSettings(t *testing.T) {
	for _, c := range []struct {
		name  string
		ms    [3]float64 // a step of A, of another setting, and of A again
		slope float64    // by which each step of A is longer than the one before
		pool  bool
		says  string
	}{
		{"pooled", [3]float64{100, 80, 100}, 0, true, "as A: equal settings, pooled: 300 steps"},
		{"a host that changed", [3]float64{100, 80, 150}, 0, false, "as A: the same settings, yet -33 % (-34 to -32 %): no setting made it slower, so the device or the host did"},
		{"a host that drifted", [3]float64{100, 80, 160}, 1e-3, false, "the step time drifted before, +"},
	} {
		r := rand.New(rand.NewPCG(3, 4))
		snap := &trace.Snapshot{}
		var at int64
		for g, ms := range c.ms {
			snap.Segments = append(snap.Segments, trace.Segment{Index: int32(g), Knobs: []knob.Setting{{Name: "num_workers", Value: []string{"1", "2", "1"}[g]}}})
			for i := range 150 {
				took := int64(1e6 * ms * (1 + 0.02*r.NormFloat64()))
				if g == 0 {
					took += int64(1e6 * ms * c.slope * float64(i))
				}
				snap.Recent = append(snap.Recent, trace.Step{Index: int32(len(snap.Recent)), Segment: int32(g), Samples: 32, Start: at, End: at + took, Busy: took / 2})
				at += took
			}
		}
		snap.Digest = *trace.Digested(snap.Recent)
		rows := Segments(snap)
		if got := Repeated(rows, 2); rows[2].Repeats != 0 || rows[2].Again.Pooled != c.pool || !strings.Contains(got, c.says) {
			t.Errorf("%s: %q of row %d", c.name, got, rows[2].Repeats)
		}
		if Repeated(rows, 0) != "" || Repeated(rows, 1) != "" {
			t.Errorf("%s: settings measured once are said to be measured again", c.name)
		}
		alone := stats.Compare(rows[0].Stretch, rows[1].Stretch, history(rows), stats.DefaultMargin).Throughput
		if got := rows[1].VsA.Throughput; (got.Samples[0] > 1.5*alone.Samples[0]) != c.pool {
			t.Errorf("%s: compared with %.0f effective samples of A, whose own are %.0f", c.name, got.Samples[0], alone.Samples[0])
		}
	}
}

// TestRates: the rates of an A/B test have the ratio of its change, however much its pairs
// differ.
func TestRates(t *testing.T) {
	x := Experiment{}
	for i := range int64(8) {
		x.Pairs = append(x.Pairs, trace.Pair{
			A: trace.Block{Steps: 10, Samples: 320, Active: (100 + 40*i) * 1e6, Busy: 50e6},
			B: trace.Block{Steps: 10, Samples: 320, Active: (60 + 80*(i%2)) * 1e6, Busy: 50e6},
		})
	}
	x.pairs()
	r := x.Rates()
	if got, want := r[1]/r[0], x.Change.Throughput.Ratio; math.Abs(got/want-1) > 1e-9 || want < 2 {
		t.Errorf("%.0f to %.0f samples/s are told as a ratio of %v", r[0], r[1], want)
	}
}

// TestLonger: an A/B test under way says about how long its missing pairs take; one that ended does not.
func TestLonger(t *testing.T) {
	x := Experiment{Experiment: trace.Experiment{Kind: trace.Paired, Start: 10e9}}
	for range 2 {
		x.Pairs = append(x.Pairs, trace.Pair{A: trace.Block{Steps: 10, Samples: 100, Active: 1e9}, B: trace.Block{Steps: 10, Samples: 100, Active: 1e9}})
	}
	x.pairs()
	if x.longer(30e9); !strings.Contains(x.Text(), "not significant yet: 2 of 6 pairs, ~40 s more at least, under way") {
		t.Errorf("under way: %s", x.Text())
	}
	x.End = 30e9
	x.pairs()
	if x.longer(30e9); !strings.Contains(x.Text(), "2 of 6 pairs; taken back") {
		t.Errorf("ended: %s", x.Text())
	}
}
