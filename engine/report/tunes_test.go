package report

import (
	"bytes"
	"strings"
	"testing"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// TestTunes: the settings that a tune measured are a table. What it left alone is a list with
// the reasons.
func TestTunes(t *testing.T) {
	s := scripts()["tuned"].run(t)
	four := []knob.Setting{{Name: "num_workers", Value: "4"}}
	before := trace.Block{Steps: 100, Samples: 10_000, Active: 1e9, Busy: 5e8}
	after := trace.Block{Steps: 100, Samples: 15_000, Active: 1e9, Busy: 9e8}
	s.Experiments = []trace.Experiment{{
		Kind: trace.Tune, Start: 1e9, End: 2e9, First: 1, Last: 1, Kept: true, B: four, A: []knob.Setting{{Name: "num_workers", Value: "0"}},
		Decisions: []trace.Decision{
			{Segment: 0, After: before, Verdict: trace.Found, Text: "at the start: 10,000 samples/s"},
			{Knobs: four, Segment: 1, Before: before, After: after, Predicted: trace.Prediction{Base: 100, Rate: 150, Lo: 140, Hi: 160},
				Ratio: 1.5, Lo: 1.4, Hi: 1.6, Verdict: trace.Best, Text: "num_workers=4: measured +50 %: kept"},
			{Knobs: four, Segment: 1, Before: before, After: after, Verdict: trace.Confirmed, Text: "num_workers=4: confirmed"},
			{Segment: -1, Verdict: trace.NotTried, Text: "pin_memory has no effect: not tried"},
		},
	}}
	var b bytes.Buffer
	if err := Markdown(&b, s, Options{}); err != nil {
		t.Fatal(err)
	}
	_, got, found := strings.Cut(b.String(), "## What the tune tried\n")
	got, _, _ = strings.Cut(got, "\n## ")
	if !found {
		t.Fatal("there is no section")
	}
	for _, want := range []string{
		"| those at the start | ", "|    10,000 | 50.0 % |", "| num_workers=4      | +40 to +60 % |    15,000 | 90.0 % |  +50 % | kept      |",
		"~+50 % | confirmed |", "- pin_memory has no effect: not tried.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the section lacks %q:\n%s", want, got)
		}
	}
	if strings.Count(b.String(), "measured +50 %: kept") != 0 {
		t.Error("a decision is told twice")
	}
}
