package advice

import (
	"math"
	"strings"
	"testing"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// TestLabelTable: every label has its words, its sentence and a case in which it holds. A plain run
// has none.
func TestLabelTable(t *testing.T) {
	inject := trace.Segment{Knobs: []knob.Setting{set("inject_read", "5ms")}}
	for key, c := range map[string]struct {
		make  func(*trace.Snapshot)
		scope Scope
		says  string
	}{
		"emulated":  {func(s *trace.Snapshot) { s.Meta.Emulated, s.Meta.DeviceKind = true, "cuda" }, OfRun, "emulated driver"},
		"synthetic": {func(s *trace.Snapshot) { s.Meta.Synthetic = true }, OfRun, "gpustall made it"},
		"injected":  {func(s *trace.Snapshot) { s.Segments = append(s.Segments, inject) }, OfSegments, "on purpose"},
		"ceiling":   {func(s *trace.Snapshot) { s.Recent[3].Flags = trace.FlagCeiling }, OfSegments, "cached batches"},
		"diverged":  {func(s *trace.Snapshot) { s.Recent[3].Correct, s.Recent[3].Loss = 0, float32(math.NaN()) }, OfSteps, "first in step 3"},
		"skipped": {func(s *trace.Snapshot) {
			s.Gauges = map[string][]trace.Point{trace.GaugeSkipped: {{V: 1}, {V: 3}}}
		}, OfRun, "3 samples could not be loaded"},
		"batches":     {func(s *trace.Snapshot) { s.Meta.Host = []knob.Setting{set(trace.SampleIs, "any")} }, OfRun, "batch_size=None"},
		"approximate": {func(s *trace.Snapshot) { s.Lines = []trace.Line{{}, {Approximate: true}} }, OfRun, "a thread in the training"},
		"imported":    {func(s *trace.Snapshot) { s.Meta.Imported = "trace.json" }, OfRun, "trace.json"},
		"incomplete":  {func(s *trace.Snapshot) { s.Outcome.Unsaved = trace.Unsaved{Spans: 7, From: 1e9, To: 2e9} }, OfSteps, "7 spans of the time from 1.00 s"},
		"damaged":     {func(s *trace.Snapshot) { s.Damage = []string{"A block is lost."} }, OfRun, "A block is lost"},
	} {
		// A segment does not have a label that began after its end.
		s := uniform(20, nil)
		if l := Labels(s, nil); len(l) != 0 {
			t.Fatalf("a plain run has the labels %v", l)
		}
		c.make(s)
		s.Digest = *trace.Digested(s.Recent)
		l := Labels(s, nil)
		if len(l) != 1 || l[0].Key != key || l[0].Words == "" || l[0].Scope != c.scope || !strings.Contains(l[0].Sentence, c.says) {
			t.Errorf("%s: %+v", key, l)
		}
		if l[0].Scope == OfSegments && len(l[0].Segments) != 1 {
			t.Errorf("%s: segments %v", key, l[0].Segments)
		}
	}
	// A segment does not have a label that began after its end.
	s := uniform(20, nil)
	s.Recent[15].Correct, s.Recent[15].Loss = 0, float32(math.NaN())
	s.Digest = *trace.Digested(s.Recent)
	if l := Labels(s, trace.Count(s.Recent[:10])); len(l) != 0 {
		t.Errorf("before the loss broke: %v", l)
	}
	if want := 11; len(labels) != want {
		t.Errorf("%d labels, %d of them tested", len(labels), want)
	}
}

// TestLabels: the text names whatever makes a number differ from that of a plain run.
func TestLabels(t *testing.T) {
	s := uniform(20, map[trace.Cause]int64{trace.CauseRead: 50}, set("num_workers", "0"))
	s.Meta.Emulated, s.Meta.Synthetic = true, true
	s.Recent[7].Flags = trace.FlagInjected
	v := judge(s, s.Recent)
	if !strings.HasSuffix(v.Text, "[emulated, synthetic data, injected]") {
		t.Errorf("text %q", v.Text)
	}
	if !strings.Contains(v.Advice, "injected") || v.Knob != "num_workers" {
		t.Errorf("advice %q", v.Advice)
	}
	s = uniform(20, nil)
	for i := range s.Recent {
		s.Recent[i].Flags = trace.FlagCeiling
	}
	v = judge(s, s.Recent)
	if !strings.HasSuffix(v.Text, "[ceiling]") || !strings.Contains(v.Advice, "ceiling") || v.Knob != "" {
		t.Errorf("%+v", v)
	}
	s = uniform(5, nil)
	s.Meta.Emulated = true
	if v := judge(s, s.Recent); !strings.Contains(v.Text, "emulated") {
		t.Errorf("text %q", v.Text)
	}
}

// TestLabelsOfKnobs: the verdict of a run that was asked to inject says so, even where the
// injection reached no step. So does the verdict of single segments.
func TestLabelsOfKnobs(t *testing.T) {
	for value, want := range map[string]bool{"9:50ms": true, "off": false, "0": false} {
		s := uniform(20, nil, set("inject_straggler", value))
		if v := judge(s, s.Recent); strings.HasSuffix(v.Text, "[injected]") != want {
			t.Errorf("inject_straggler=%s: %q", value, v.Text)
		}
	}
	s := uniform(20, nil, set("inject_read", "off"))
	s.Segments = append(s.Segments, trace.Segment{Index: 1, Knobs: []knob.Setting{set("inject_read", "5ms")}})
	if v := judge(s, s.Recent); len(v.Labels) != 0 {
		t.Errorf("a later segment's injection: %q", v.Text)
	}
	if v := judge(s, nil); !strings.HasSuffix(v.Text, "[injected]") {
		t.Errorf("before the first step: %q", v.Text)
	}
}

// TestLabelsBeforeSteps: a label does not wait for the first step.
func TestLabelsBeforeSteps(t *testing.T) {
	s := &trace.Snapshot{Segments: []trace.Segment{{Knobs: []knob.Setting{
		{Name: "inject_read", Value: "50ms"}, {Name: "inject_cpu", Value: "off"}, {Name: "ceiling", Value: "off"},
	}}}}
	if got := strings.Join(Keys(Labels(s, nil)), ","); got != "injected" {
		t.Errorf("labels %q", got)
	}
	s.Segments[0].Knobs[0].Value, s.Segments[0].Knobs[2].Value = "off", "on"
	if got := strings.Join(Keys(Labels(s, nil)), ","); got != "ceiling" {
		t.Errorf("labels %q", got)
	}
}
