package advice

import (
	"strings"
	"testing"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/attribution/attributiontest"
	"dev.gpustall/engine/trace"
)

// found is what advice must say of each of attributiontest.Faults.
var found = map[string]struct{ class, queue, knob, value string }{
	"none":                          {DeviceBound, QueueDevice, "", ""},
	"slow read":                     {"input-bound", QueueIO, "num_workers", "6"},
	"slow decode":                   {"input-bound", QueueCPU, "num_workers", "6"},
	"slow transform":                {"input-bound", QueueCPU, "num_workers", "6"},
	"one straggler":                 {"input-bound", "", "in_order", "off"},
	"no overlap":                    {"input-bound", QueueCPU, "num_workers", "1"},
	"slow copy":                     {"copy-bound", QueueDevice, "pin_memory", "on"},
	"step loop woken late":          {"host-bound", "", "num_workers", "3"},
	"slow enqueue":                  {"launch-bound", QueueDevice, "capture", "on"},
	"slow metrics":                  {"sync-bound", QueueDevice, "", ""},
	"paused":                        {DeviceBound, QueueDevice, "", ""},
	"workers restarted every epoch": {"input-bound", "", "persistent_workers", "on"},
	"slots returned late":           {"input-bound", QueueCPU, "prefetch_factor", "4"},
	"one worker on a steady load":   {"input-bound", QueueCPU, "num_workers", "4"},
}

// snapshot is the session of a run, with the stalls among its spans.
func snapshot(r attributiontest.Run) *trace.Snapshot {
	var tl attribution.Timeline
	s := r.Snapshot(func(spans []trace.Span, steps []trace.Step, end int64) []trace.Step {
		tl = attribution.Attribute(spans, steps, 0, end)
		return tl.Steps
	})
	for _, st := range tl.Stalls {
		s.Spans = append(s.Spans, trace.Span{
			Start: st.Start, End: st.End, Step: st.Step, Batch: st.Step,
			Kind: trace.KindStall, Track: trace.TrackStall, Arg: uint32(st.Cause),
		})
	}
	return s
}

func TestInjectedFaultsAreFound(t *testing.T) {
	for _, f := range attributiontest.Faults {
		t.Run(f.Name, func(t *testing.T) {
			s := attributiontest.Healthy()
			f.Inject(&s)
			snap := snapshot(s)
			want := found[f.Name]
			v := judge(snap, snap.Recent)
			t.Log(v.Text)
			t.Log(v.Advice)
			if v.Class != want.class || v.Dominant != f.Dominant {
				t.Errorf("%s, dominant %s; want %s, %s", v.Class, v.Dominant, want.class, f.Dominant)
			}
			if v.Queue != want.queue || v.Knob != want.knob || v.Value != want.value {
				t.Errorf("queue %q, knob %s=%s; want %q, %s=%s", v.Queue, v.Knob, v.Value, want.queue, want.knob, want.value)
			}
		})
	}
}

// TestVerdictAfterAChange: the verdict follows a knob change.
func TestVerdictAfterAChange(t *testing.T) {
	s := attributiontest.Healthy()
	s.Workers, s.Steps, s.Transform = 1, 160, 30*attributiontest.Msec
	s.ChangeAt, s.ChangeTo, s.Rebuild = 80, 4, 25*attributiontest.Msec
	snap := snapshot(s)
	if v := judge(snap, snap.Recent); v.Class != DeviceBound || v.Excluded != 8 {
		t.Errorf("after the change: %+v", v)
	}
	if v := judge(snap, snap.Recent[:80]); v.Class != "input-bound" || v.Knob != "num_workers" || v.Value != "5" {
		t.Errorf("before the change: %+v", v)
	}
	if v := judge(snap, snap.Recent[:90]); v.Class != NotEnoughSteps || !strings.Contains(v.Text, "2 of 10 with these settings") {
		t.Errorf("right after the change: %+v", v)
	}
}
