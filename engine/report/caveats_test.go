package report

import (
	"strings"
	"testing"

	"dev.gpustall/engine/trace"
)

// TestSegmentNames: a label of the whole run does not list every segment.
func TestSegmentNames(t *testing.T) {
	m := &account{s: &trace.Snapshot{Segments: make([]trace.Segment, 5)}}
	for _, c := range []struct {
		of   []int32
		want string
	}{
		{[]int32{0, 1, 2, 3, 4}, "all 5 segments"},
		{[]int32{1, 2, 3, 4}, "segments #1, #2, #3, #4"},
		{[]int32{3}, "segment #3"},
	} {
		if got := m.segmentNames(c.of); got != c.want {
			t.Errorf("%v: %q, want %q", c.of, got, c.want)
		}
	}
}

// TestStoodStill: evaluations are not called a pause that the user made.
func TestStoodStill(t *testing.T) {
	s := scripts()["injected"].run(t)
	for evaluated, want := range map[bool]string{
		false: "- The run was paused for 1.99 s,",
		true:  "- Training stood still for 1.99 s, of which evaluations on the test split took 1.50 s:",
	} {
		if s.Gauges = nil; evaluated {
			s.Gauges = map[string][]trace.Point{trace.GaugeTestLoss: {{V: 1}}, trace.GaugeTestTook: {{V: 1.5e9}}}
		}
		var b strings.Builder
		if err := Markdown(&b, s, Options{}); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("no %q, %v", want, err)
		}
	}
	s.Gauges = map[string][]trace.Point{"rank_0_steps": {{V: 10}}, "rank_0_aside_ns": {{V: 1.2e9}}}
	var b strings.Builder
	want := "- Training stood still for 1.99 s, of which loops that do not train, such as an evaluation, took"
	if err := Markdown(&b, s, Options{}); err != nil || !strings.Contains(strings.ReplaceAll(b.String(), "\n  ", " "), want) {
		t.Errorf("no %q, %v", want, err)
	}
}

// TestAfterTheLastStep: a script that goes on after its training leaves nothing unexplained.
func TestAfterTheLastStep(t *testing.T) {
	s := scripts()["injected"].run(t)
	s.Outcome.Ended = s.Last.End + s.Total.Wall
	var b strings.Builder
	if err := Markdown(&b, s, Options{}); err != nil || strings.Contains(b.String(), "no recorded cause") {
		t.Errorf("the time after the last step is said to be unexplained, %v", err)
	}
}
