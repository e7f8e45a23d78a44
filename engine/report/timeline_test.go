package report

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/attribution/attributiontest"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
)

// TestLongRun: a run with more spans than are kept in memory still has the pictures
// of its first settings and of its last.
func TestLongRun(t *testing.T) {
	if testing.Short() {
		t.Skip("millions of spans")
	}
	const ms, steps = int64(1e6), 240
	path := filepath.Join(t.TempDir(), "long"+store.Ext)
	file, err := store.Create(path, trace.Meta{Model: "cnn", Samples: steps})
	if err != nil {
		t.Fatal(err)
	}
	clutter := make([]trace.Span, 0, trace.MaxSpans/80)
	spans := 0
	for i := range int32(steps) {
		at := int64(i) * 4 * ms // 1 ms of decoding, 3 ms of computing
		b := trace.Drained{Now: at + 4*ms}
		if i%80 == 0 {
			changed := []knob.Setting{{Name: "prefetch_factor", Value: itoa(int64(i))}}
			b.Segments = []trace.Segment{{Index: i / 80, Start: at, FirstStep: i, Reason: "a change", Knobs: changed}}
		}
		if i > 100 && i < 220 {
			b.Spans = clutter[:cap(clutter)]
			for k := range b.Spans {
				b.Spans[k] = trace.Span{Start: at + int64(k), End: at + int64(k) + 1, Step: -1, Batch: -1, Kind: trace.KindQueue, Track: trace.TrackQueue}
			}
		}
		b.Spans = append(b.Spans,
			trace.Span{Start: at, End: at + ms, Step: i, Batch: i, Kind: trace.KindDecode, Track: trace.Worker(0)},
			trace.Span{Start: at, End: at + ms, Step: i, Batch: i, Kind: trace.KindStall, Track: trace.TrackStall, Arg: uint32(trace.CauseDecode)},
			trace.Span{Start: at + ms, End: at + 4*ms, Step: i, Batch: i, Kind: trace.KindCompute, Track: trace.TrackCompute})
		st := trace.Step{Index: i, Segment: i / 80, Batch: i, Samples: 1, Correct: -1, Start: at, End: at + 4*ms, Busy: 3 * ms}
		st.Stall[trace.CauseDecode] = ms
		b.Steps = []trace.Step{st}
		spans += len(b.Spans)
		if err := file.Write(&b); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	snap := s.Snapshot(0, math.MaxInt64)
	if len(snap.Spans) >= spans {
		t.Fatalf("all of %d spans are in memory", spans)
	}
	for i, r := range attribution.Segments(snap)[:2] {
		m := newAccount(snap)
		if from, to, _, _ := m.window(i); to-from != 4*pictured*ms {
			t.Errorf("the picture of segment %d spans %d ns", r.Segment.Index, to-from)
		}
	}
	var b strings.Builder
	if err := Markdown(&b, snap, Options{}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "compute   |"); n != 2 || strings.Contains(b.String(), "no picture") {
		t.Errorf("%d pictures:\n%s", n, b.String())
	}
	if strings.Count(b.String(), "| 75.0 %\nSTALL") != 2 {
		t.Errorf("the pictures do not say that the device computed 75 %% of the time:\n%s", b.String())
	}
}

// TestPicturedSteps: a picture has no pause in it, because a pause is in no share.
func TestPicturedSteps(t *testing.T) {
	for at := range 4 { // few steps, so that the picture is rather short
		r := attributiontest.Healthy()
		r.Steps, r.PauseAt, r.Pause = 5, at+1, 5000*attributiontest.Msec
		snap := r.Snapshot(func(spans []trace.Span, steps []trace.Step, end int64) []trace.Step {
			return attribution.Attribute(spans, steps, 0, end).Steps
		})
		snap.Spans = append([]trace.Span{{End: snap.Now, Kind: trace.KindStall, Track: trace.TrackStall, Arg: uint32(trace.CausePaused)}}, snap.Spans...)
		m := newAccount(snap)
		if from, to, first, last := m.window(0); to <= from || to-from >= r.Pause {
			t.Errorf("paused before step %d: steps %d to %d take %d ms", r.PauseAt, first, last, (to-from)/attributiontest.Msec)
		}
	}
}

// TestOneStep: where there are gaps between steps, as in a trace, one step is pictured.
func TestOneStep(t *testing.T) {
	s := scripts()["imported"].run(t)
	for i := range s.Recent {
		s.Recent[i].End--
	}
	var b strings.Builder
	if err := Markdown(&b, s, Options{}); err != nil || !strings.Contains(b.String(), ", a typical one, ") {
		t.Errorf("it is not one step that is typical, %v", err)
	}
}

// TestLegendNamesLanes: a legend names the lanes that load, and no others.
func TestLegendNamesLanes(t *testing.T) {
	for want, d := range map[string]legend{
		"Inline (the step loop itself)":                                         {inline: true},
		"Workers (w0, w1, …)":                                                   {workers: true},
		"Workers (w0, w1, …; inline is the step loop itself)":                   {workers: true, inline: true},
		"Workers (w0, w1, …; pin is the thread that page-locks what they made)": {workers: true, pin: true},
	} {
		if got := d.loaders(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
