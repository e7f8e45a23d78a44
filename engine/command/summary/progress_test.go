package summary

import (
	"math"
	"strings"
	"testing"
	"time"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// TestProgressOfSlowSteps: progress shows the last step, however long ago it ended.
func TestProgressOfSlowSteps(t *testing.T) {
	const second = int64(time.Second)
	s := &trace.Snapshot{Now: 60 * second, Meta: trace.Meta{Samples: 100}, Recent: []trace.Step{
		{Index: 0, End: 10 * second, Samples: 10, Busy: 10 * second},
		{Index: 1, Epoch: 1, Start: 10 * second, End: 30 * second, Samples: 10, Busy: 20 * second},
	}}
	s.Digest = *trace.Digested(s.Recent)
	g := ProgressOf(s, 2, 4)
	if g.Epoch != 1 || math.Abs(float64(g.SamplesPerSecond)-0.5) > 1e-9 {
		t.Errorf("epoch %d, %v samples/s", g.Epoch, g.SamplesPerSecond)
	}
	if math.Abs(float64(g.ETA)-40) > 1e-9 { // two steps of 20 s
		t.Errorf("ETA %v s", g.ETA)
	}
	if g.Late || float64(g.SinceStep) != 30 {
		t.Errorf("late %v, %v s since the last step: 30 s are less than two steps", g.Late, g.SinceStep)
	}
	s.Now = 80 * second
	if line := ProgressOf(s, 2, 0).Line(); !strings.Contains(line, "(no step for 50.0 s)") {
		t.Errorf("a stalled run reads %q", line)
	}
	s.Gauges = map[string][]trace.Point{trace.GaugeTestBegun: {{T: 70 * second}}}
	if line := ProgressOf(s, 2, 0).Line(); !strings.Contains(line, "  evaluating") || strings.Contains(line, "no step") {
		t.Errorf("an evaluation reads %q", line)
	}
	s.Gauges = map[string][]trace.Point{"rank_0_aside_ns": {{T: 29 * second}, {T: 79 * second, V: 40e9}}} // a script's own
	if line := ProgressOf(s, 2, 0).Line(); !strings.Contains(line, "  evaluating for 50.0 s") {
		t.Errorf("a script's evaluation reads %q", line)
	}
}

// TestSamplesLeft: the samples left depend on the current knobs.
func TestSamplesLeft(t *testing.T) {
	const full, last = 32, trace.FlagLastOfEpoch
	for _, tt := range []struct {
		name, drop, batch string
		steps             []trace.Step
		want              float64
	}{
		{"whole epochs", "off", "32", []trace.Step{{Samples: full}}, 68 + 100},
		{"drop_last leaves four", "on", "32", []trace.Step{{Samples: full}}, 64 + 96},
		{"at the end of an epoch", "on", "32", []trace.Step{{Samples: full}, {Samples: full}, {Samples: full, Flags: last}}, 96},
		{"an epoch that was cut short counts as done", "off", "32", []trace.Step{{Samples: full, Flags: last}}, 100},
		{"in the last epoch", "on", "32", []trace.Step{{Samples: full, Flags: last}, {Epoch: 1, Samples: full}}, 64},
		{"at the end", "on", "32", []trace.Step{{Epoch: 1, Samples: full, Flags: last}}, 0},
		{"another batch size", "on", "30", []trace.Step{{Samples: full}}, 58 + 90},
	} {
		s := &trace.Snapshot{Meta: trace.Meta{Samples: 100}, Recent: tt.steps, Digest: *trace.Digested(tt.steps), Segments: []trace.Segment{{
			Knobs: []knob.Setting{{Name: "batch_size", Value: tt.batch}, {Name: "drop_last", Value: tt.drop}},
		}}}
		if got := samplesLeft(s, 2); got != tt.want {
			t.Errorf("%s: %v samples left, want %v", tt.name, got, tt.want)
		}
	}
}
