package advice

import (
	"math"
	"strings"
	"testing"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// TestBrokenOff: an A/B test that was broken off before it told anything has not failed.
func TestBrokenOff(t *testing.T) {
	trial := Trial{Steps: 60}
	trial.Change.Throughput.Missing = stats.Missing{What: stats.Pairs, Have: 4, Want: 6}
	if trial.failed() {
		t.Error("a broken-off test counts as failed")
	}
	if trial.Change.Throughput = (stats.Change{Ratio: 0.98, Missing: stats.Missing{What: stats.Precision}}); !trial.failed() {
		t.Error("a trial that does not even seem to help has not failed")
	}
}

// TestWhatAnotherSegmentHad: a finding does not repeat settings that a later segment had,
// whatever came of them.
func TestWhatAnotherSegmentHad(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps int
		times int64 // that a step of A takes as long
		says  string
		tests bool
	}{
		{"faster", 60, 2, "go back to num_workers 4 (+100.0 % measured): segment #1 had it, with +100.0 % (+100.0 to +100.0 %) throughput", false},
		{"not known yet", 30, 2, "let num_workers 2 and 4 take turns (A/B test): segment #1 had it, and its gain is not significant yet: ", true},
		{"no faster", 60, 1, "", false},
	} {
		s := uniform(c.steps, wait(trace.CauseDecode), set("num_workers", "4"))
		after("num_workers", "2", "4", c.times)(s)
		slow(s)
		s.Digest = *trace.Digested(s.Recent)
		a := Of(s, s.Tally(0), attribution.Segments(s))
		if f := a.First(); !strings.HasPrefix(f.Text(), c.says) || c.says == "" && f.Value == "4" || strings.Contains(a.Text(), "try num_workers 2 -> 4") {
			t.Errorf("%s: %q", c.name, a.Text())
		} else if f.Tests() != c.tests {
			t.Errorf("%s: the words tell to test: %v", c.name, f.Tests())
		}
	}
}

// TestTests: a value is to be tested where its prediction tells neither a gain nor a loss, and nothing was measured.
func TestTests(t *testing.T) {
	for _, c := range []struct {
		f    Finding
		want bool
	}{
		{Finding{Value: "4", Predicted: trace.Prediction{Base: 100, Lo: 70, Rate: 110, Hi: 180}}, true},
		{Finding{Value: "4", Predicted: trace.Prediction{Base: 100, Lo: 98, Rate: 190, Hi: 250}}, true},
		{Finding{Value: "4", Predicted: trace.Prediction{Base: 100, Lo: 180, Rate: 300, Hi: 400}}, false},
		{Finding{Value: "4", Predicted: trace.Prediction{Base: 100, Lo: 110, Rate: 120, Hi: 130}}, false},
		{Finding{Value: "4", Predicted: trace.Prediction{Base: 100, Lo: 70, Rate: 110, Hi: 180}, Measured: units.Rough(1.3)}, false},
		{Finding{Value: "4"}, false},
		{Finding{Predicted: trace.Prediction{Base: 100, Lo: 70, Rate: 110, Hi: 180}}, false},
	} {
		if got, says := c.f.Tests(), strings.HasSuffix(c.f.Gain(), "an A/B test tells"); got != c.want || got && !says {
			t.Errorf("%+v: %v, %q", c.f, got, c.f.Gain())
		}
	}
}

// TestMeasuredGoesFirst: a run that went back to the settings from before a gain is advised to repeat the
// change. The advice tells the measured gain: the A/B test's where there was one, in either direction.
func TestMeasuredGoesFirst(t *testing.T) {
	pairs := func(outer, inner int64) (ps []trace.Pair) {
		for i := range int64(8) {
			ps = append(ps, trace.Pair{A: trace.Block{Steps: 10, Samples: 320, Active: 10*outer*1e6 + i, Busy: 500e6}, B: trace.Block{Steps: 10, Samples: 320, Active: 10*inner*1e6 + i, Busy: 500e6}})
		}
		return ps
	}
	for _, c := range []struct {
		name, next, why string
		test            *trace.Experiment
	}{
		{"no test", "go back to num_workers 5 (+100 % measured)", "segment #1 had it, with +100 % (", nil},
		{"a test", "go back to num_workers 5 (+300.0 % measured)", "throughput, by 8 pairs of an A/B test", &trace.Experiment{
			Kind: trace.Paired, Start: 1, End: 2, First: 2, Last: 2, A: []knob.Setting{set("num_workers", "5")}, B: []knob.Setting{set("num_workers", "0")}, Pairs: pairs(50, 200),
		}},
	} {
		s := stretches([3]int64{0, 50, 50}, [3]int64{5, 50, 0}, [3]int64{0, 50, 50}, [3]int64{0, 50, 50})
		if c.test != nil {
			s.Experiments = []trace.Experiment{*c.test}
		}
		for i := range s.Recent { // loading takes as long as the loop waits
			st := &s.Recent[i]
			st.Wait, st.Load = st.Stall[trace.CauseDecode], 50e6
		}
		s.Digest = *trace.Digested(s.Recent)
		s.Segments[3].ByScript = c.test != nil // which does not matter to a test
		a := Of(s, s.Tally(3), attribution.Segments(s))
		if next, why := a.Next(); next != c.next || !strings.Contains(why, c.why) {
			t.Errorf("%s: %q: %q", c.name, next, why)
		}
		if c.test != nil && !strings.HasPrefix(a.Keep.Text, "keep segment #1, the fastest that was measured: +300.0 % ") {
			t.Errorf("%s: %s", c.name, a.Keep.Text)
		}
		if m := a.Measured(s.Segments[3].Knobs, "num_workers", "5"); m == nil || m.Estimate() != a.First().Measured {
			t.Errorf("%s: the knob's row says %v", c.name, m)
		}
	}
}

// TestMeasuredBeatsPredicted: a loop that was faster without workers is not advised to have other
// numbers of them. A loop that gained by more workers is not advised to have fewer than it had.
func TestMeasuredBeatsPredicted(t *testing.T) {
	for _, c := range []struct {
		from, now string
		refused   map[string]bool
	}{
		{"4", "0", map[string]bool{"2": true, "4": true, "8": true}},
		{"4", "2", map[string]bool{"1": false, "3": false, "4": true, "8": true}},
		{"2", "4", map[string]bool{"1": true, "2": true, "3": false, "8": false}},
	} {
		s := uniform(60, wait(trace.CauseDecode), set("num_workers", c.now))
		after("num_workers", c.from, c.now, 2)(s)
		slow(s)
		s.Digest = *trace.Digested(s.Recent)
		rows := attribution.Segments(s)
		h := newSituation(s, s.Tally(1), rows, tried(s, rows, nil)).tried
		for value, want := range c.refused {
			if got := h.refused("num_workers", value); got != want {
				t.Errorf("%s -> %s gained; %s is refused: %v, want %v", c.from, c.now, value, got, want)
			}
		}
	}
}

// TestLooksSlower: no number beyond one that looks slower is advised. Where other processes came or went meanwhile, the first such
// trial counts for nothing, and the advice names it. An A/B test that ended undecided is not advised again.
func TestLooksSlower(t *testing.T) {
	trial := func(from, to string, ratio, others float64) Trial {
		t := Trial{Knob: "num_workers", From: from, To: to, Steps: 60, others: others}
		t.Change.Throughput = stats.Change{Ratio: ratio, Missing: stats.Missing{What: stats.Windows}}
		return t
	}
	test := trial("4", "8", 1.2, 0)
	test.undecided, test.Change.Throughput.Missing.What = true, stats.Precision
	for _, c := range []struct {
		trials  []Trial
		refused bool
		despite string
	}{
		{[]Trial{trial("4", "8", 1.2, 0)}, false, ""},
		{[]Trial{test}, true, ""},
		{[]Trial{trial("2", "4", 0.9, 0)}, true, ""},
		{[]Trial{trial("2", "4", 0.9, math.NaN())}, true, ""},
		{[]Trial{trial("2", "4", 1.02, 0)}, false, ""},
		{[]Trial{trial("2", "4", 0.9, 0.3)}, false, "num_workers 2 -> 4 looked slower (~-10 %), while other processes used 30.0 % more of the cores than before"},
		{[]Trial{trial("2", "3", 0.9, -0.3), trial("3", "4", 0.8, 0.3)}, true, ""},
	} {
		h := history{knobs: &inForce{settings: []knob.Setting{set("num_workers", "4")}}, trials: c.trials}
		f := Finding{Knob: "num_workers", Value: "8"}
		got := h.refused(f.Knob, f.Value)
		if said := h.despite(&f); got != c.refused || !got && said != c.despite {
			t.Errorf("%+v: refused %v, %q", c.trials, got, said)
		}
	}
}
