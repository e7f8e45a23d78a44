package report

import (
	"bytes"
	"strings"
	"testing"

	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/trace"
)

// TestSlowerDevice: where the device's threads are the host's and had no core, the report
// does not blame the device itself.
func TestSlowerDevice(t *testing.T) {
	for _, c := range []struct {
		name    string
		starved float64 // percent
		says    string
	}{
		{"by itself", 0, "the device itself seems slower"},
		{"CPU-starved", 80, "the device seems slower"},
	} {
		m := newAccount(scripts()["tuned"].run(t))
		a, b := m.rows[0], m.rows[1]
		b.Breakdown.Busy *= 2
		at := m.tally(1)
		m.s.Gauges[trace.GaugeStarved] = []trace.Point{{T: (at.From + at.To) / 2, V: c.starved}}
		text := m.computeText(&a, &b, &stats.Comparison{})
		waited := strings.Contains(text, "its threads waited for a core 80.0 % of the time in which it computed, before 0.0 %")
		if !strings.HasPrefix(text, c.says) || waited != (c.starved > 0) {
			t.Errorf("%s: %q", c.name, text)
		}
	}
}

// TestFirstEpochs: the first page says which epochs its verdict is about, if its numbers
// are about all epochs.
func TestFirstEpochs(t *testing.T) {
	s := &trace.Snapshot{Segments: []trace.Segment{{Knobs: knobList("num_workers=0")}}}
	var at int64
	for i := range int32(160) {
		wait := int64(100e6)
		if i >= 80 {
			wait = 1e6
		}
		st := trace.Step{
			Index: i, Epoch: i / 80, Samples: 32, Correct: -1, Start: at, End: at + 50e6 + wait + int64(i%2)*1e6,
			Busy: 50e6 + int64(i%2)*1e6, Load: wait,
		}
		st.Stall[trace.CauseFetch] = wait
		at = st.End
		s.Recent = append(s.Recent, st)
	}
	s.Now, s.Outcome.Ended, s.Digest = at, at, *trace.Digested(s.Recent)
	var b bytes.Buffer
	if err := Markdown(&b, s, Options{}); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{
		"the run is device-bound in epoch 2.", "These numbers are of all epochs; verdict and advice are on epoch 2.",
		"To know: epoch 1 waited for data in 66.4 % of its time, epoch 2 in 1.9 %, on which the advice rests:",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

// TestUndecided: settings that look faster without proof are the headline, and none are kept.
func TestUndecided(t *testing.T) {
	s := &trace.Snapshot{Segments: []trace.Segment{{Knobs: knobList("num_workers=0")}, {Index: 1, Knobs: knobList("num_workers=4"), Reason: "num_workers 0 -> 4"}}}
	var at int64
	for i := range int32(40) {
		st := trace.Step{Index: i, Segment: i / 20, Samples: 32, Correct: -1, Start: at, Busy: 5e6, Load: 5e6}
		st.Stall[trace.CauseFetch] = int64(1-i/20) * 5e6
		st.End = at + st.Busy + st.Stall[trace.CauseFetch]
		at = st.End
		s.Recent = append(s.Recent, st)
	}
	s.Segments[0].End, s.Segments[1].Start = s.Recent[19].End, s.Recent[20].Start
	s.Now, s.Digest = at, *trace.Digested(s.Recent)
	var b bytes.Buffer
	if err := Markdown(&b, s, Options{}); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(b.String()), " ")
	const open = "num_workers=4 looks faster than the baseline's settings (~+100 %), not proven yet: " +
		"press A on the screen or give --paired num_workers=4 to let the two take turns (A/B test)."
	for _, want := range []string{"**" + open + "**", "- Not decided: " + open, "- The baseline's settings in PyTorch: DataLoader(dataset)"} {
		if !strings.Contains(text, want) {
			t.Errorf("not in the report: %s\n%s", want, b.String())
		}
	}
	if strings.Contains(text, "Keep the settings") {
		t.Errorf("something is kept:\n%s", b.String())
	}
}

// TestCertain: a change is the ratio of the rates beside it. Only if taking the drift out decides
// the answer, it is the ratio without the drift, and marked.
func TestCertain(t *testing.T) {
	for _, drift := range []struct {
		ratio          float64
		change, ofTime string
		marked         bool
	}{{1, "+70 %", "-41 %", false}, {1.1, "+90 %", "-47 %", false}, {0.7, "+70 %", "-41 %", true}} {
		c := stats.Change{Answer: stats.Different, Ratio: 1.7, Lo: 1.2, Hi: 2.2, Drifted: drift.ratio}
		if got := certain(&c, 756, 914); strings.HasSuffix(got, " "+stats.DriftMark) != drift.marked || !strings.HasPrefix(got, drift.change) {
			t.Errorf("drifted by %v: %q", drift.ratio, got)
		}
		inverse := c.Inverse()
		if got := certain(&inverse, 3, 2.5); strings.HasSuffix(got, " "+stats.DriftMark) != drift.marked || !strings.HasPrefix(got, drift.ofTime) {
			t.Errorf("drifted by %v: %q", drift.ratio, got)
		}
	}
	c := stats.Change{Answer: stats.Unknown, Ratio: 1.7, Drifted: 0.7}
	if got := certain(&c, 100, 121); got != "~+21 %" {
		t.Error(got)
	}
}
