package attribution

import (
	"math"
	"testing"
	"time"

	"dev.gpustall/engine/analysis/attribution/attributiontest"
	"dev.gpustall/engine/trace"
	"github.com/google/go-cmp/cmp"
)

func step(i int32, busy int64, stalls map[trace.Cause]int64) trace.Step {
	s := trace.Step{Index: i, Batch: i, Samples: 10, Correct: 5, Loss: 2, Busy: busy, Wait: 7, Load: 30, Copy: 3, Bytes: 100}
	s.End = busy
	for c, ns := range stalls {
		s.Stall[c] = ns
		s.End += ns
	}
	return s
}

// digested is a session of steps.
func digested(steps ...trace.Step) *trace.Snapshot {
	return &trace.Snapshot{Recent: steps, Digest: *trace.Digested(steps)}
}

func TestBreakdown(t *testing.T) {
	b := Sum([]trace.Step{
		step(0, 60, map[trace.Cause]int64{trace.CauseDecode: 20, trace.CauseRead: 5, trace.CauseCopy: 15, trace.CausePaused: 900}),
		step(1, 100, nil),
	})
	if b.Wall != 1100 || b.Busy != 160 || b.Paused != 900 || b.Active() != 200 || b.Steps != 2 || b.Samples != 20 {
		t.Errorf("%+v", b)
	}
	if b.Wait != 14 || b.Load != 60 || b.Copy != 6 || b.Bytes != 200 {
		t.Errorf("%+v", b)
	}
	for name, c := range map[string]struct{ got, want float64 }{
		"utilisation": {b.Utilisation(), 0.8}, "data": {b.DataShare(), 0.125}, "decode": {b.Share(trace.CauseDecode), 0.1},
		"paused": {b.Share(trace.CausePaused), 0}, "invalid": {b.Share(200), 0}, "rate": {b.SamplesPerSecond(), 1e8},
		"nothing": {Breakdown{}.Utilisation(), 0}, "no rate": {Breakdown{trace.Totals{Samples: 4}}.SamplesPerSecond(), 0},
	} {
		if math.Abs(c.got-c.want) > 1e-9*max(1, c.want) {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
}

// TestAU: AU leaves out the first step, which waits for the first batch.
func TestAU(t *testing.T) {
	first := step(0, 10, map[trace.Cause]int64{trace.CauseStartup: 990})
	if _, ok := AU(digested(first)); ok {
		t.Error("one step has an AU")
	}
	au, ok := AU(digested(first, step(1, 90, map[trace.Cause]int64{trace.CauseRead: 10}), step(2, 80, map[trace.Cause]int64{trace.CauseRead: 20})))
	if !ok || au != 0.85 {
		t.Errorf("AU is %v, %v; want 0.85", au, ok)
	}
}

// TestWhole: the whole of a session is its steps and its tail, to the nanosecond.
func TestWhole(t *testing.T) {
	for _, f := range attributiontest.Faults {
		s := attributiontest.Healthy()
		f.Inject(&s)
		snap, tl := snapshot(s)
		snap.Outcome.Ended = snap.Now + 12345
		for _, st := range tl.Stalls {
			snap.Spans = append(snap.Spans, trace.Span{Start: st.Start, End: st.End, Step: st.Step, Kind: trace.KindStall, Track: trace.TrackStall, Arg: uint32(st.Cause)})
		}
		b := Whole(snap)
		sum := b.Busy
		for _, ns := range b.Stall {
			sum += ns
		}
		if b.Wall != snap.Outcome.Ended || sum != b.Wall {
			t.Errorf("%s: wall %d, parts %d, session %d", f.Name, b.Wall, sum, snap.Outcome.Ended)
		}
		steps := Sum(snap.Recent)
		if got := b.Stall[trace.CauseUnknown] - steps.Stall[trace.CauseUnknown]; got < 12345 {
			t.Errorf("%s: the tail's unexplained end is %d ns", f.Name, got)
		}
	}
	running := digested(step(0, 60, nil))
	if b := Whole(running); b.Wall != 60 {
		t.Errorf("a running session's wall is %d", b.Wall)
	}
}

func TestEpochs(t *testing.T) {
	s := attributiontest.Healthy()
	s.Steps, s.Epoch = 25, 10
	snap, _ := snapshot(s)
	epochs := func() []EpochStats {
		snap.Digest = *trace.Digested(snap.Recent)
		return Epochs(snap)
	}
	for i := range snap.Recent {
		snap.Recent[i].Loss = float32(i)
		snap.Recent[i].Correct = 16
	}
	nan := float32(math.NaN())
	snap.Recent[12].Loss, snap.Recent[12].Correct = nan, -1
	for i := 20; i < 25; i++ {
		snap.Recent[i].Loss, snap.Recent[i].Correct = nan, -1
		snap.Recent[i].Segment = 1
	}
	snap.Recent[19].Segment = 1
	rows := epochs()
	if len(rows) != 3 {
		t.Fatalf("%d epochs", len(rows))
	}
	var total int64
	for i, r := range rows {
		if int(r.Epoch) != i {
			t.Errorf("row %d is epoch %d", i, r.Epoch)
		}
		if r.Total != r.Breakdown.Wall || r.Train != int64(r.Steps)*s.Compute || r.Load != int64(r.Steps)*8*attributiontest.Msec {
			t.Errorf("epoch %d: %+v", i, r)
		}
		total += r.Total
	}
	if total != snap.Recent[24].End {
		t.Errorf("the epochs take %d ns, the steps %d", total, snap.Recent[24].End)
	}
	a, b, c := rows[0], rows[1], rows[2]
	if !a.Complete || !b.Complete || c.Complete || a.Projected != 0 {
		t.Errorf("complete: %v %v %v", a.Complete, b.Complete, c.Complete)
	}
	if c.Projected != 2*c.Total || c.Steps != 5 {
		t.Errorf("half an epoch of %d ns projects to %d", c.Total, c.Projected)
	}
	if a.Segment != 0 || b.Segment != -1 || c.Segment != 1 {
		t.Errorf("segments %d %d %d", a.Segment, b.Segment, c.Segment)
	}
	if a.Loss != 4.5 || a.Top1 != 0.5 || b.Loss != (145.0-12)/9 || b.Top1 != 0.5 || !math.IsNaN(c.Loss) || !math.IsNaN(c.Top1) {
		t.Errorf("loss %v %v %v, top-1 %v %v %v", a.Loss, b.Loss, c.Loss, a.Top1, b.Top1, c.Top1)
	}
	snap.Recent[0].Flags |= trace.FlagInjected
	snap.Recent[19].Flags |= trace.FlagInjected | trace.FlagCeiling
	for i := 20; i < 25; i++ {
		snap.Recent[i].Flags |= trace.FlagCeiling
	}
	for i, r := range epochs() {
		if want := [3][2]int{{1, 0}, {1, 1}, {0, 5}}[i]; r.Injected != want[0] || r.Ceiling != want[1] {
			t.Errorf("epoch %d: %d steps injected, %d on cached batches, want %v", i, r.Injected, r.Ceiling, want)
		}
	}
	snap.Recent[3].Loss = nan // computed and broken, so there is no mean over the others
	if a := epochs()[0]; !math.IsNaN(a.Loss) || a.Top1 != 0.5 {
		t.Errorf("loss %v and top-1 %v of an epoch with a loss that broke", a.Loss, a.Top1)
	}
	if Epochs(&trace.Snapshot{}) != nil {
		t.Error("no steps make epochs")
	}
}

func TestSegmentRows(t *testing.T) {
	snap := &trace.Snapshot{Segments: []trace.Segment{{Index: 3}, {Index: 4}, {Index: 9}}}
	for i := range int32(40) {
		s := step(i, 100+int64(i%20), nil)
		s.Segment = 3 + i/20
		if i == 0 {
			s.Flags = trace.FlagFirstOfEpoch
		}
		if i == 20 || i == 21 {
			s.Flags, s.Stall[trace.CauseTransition] = trace.FlagTransition, 500
			s.End += 500
		}
		snap.Recent = append(snap.Recent, s)
	}
	snap.Digest = *trace.Digested(snap.Recent)
	snap.Baseline.Segment = 77
	rows := Segments(snap) // no such segment: the first is the baseline
	var got []int
	for _, r := range rows {
		got = append(got, r.Steps, r.Excluded)
	}
	if d := cmp.Diff([]int{19, 1, 18, 2, 0, 0}, got); d != "" {
		t.Error(d)
	}
	if !rows[0].Baseline || rows[1].Baseline || rows[0].VsA.Throughput.Ratio != 0 || rows[1].VsA.Throughput.Ratio == 0 || rows[2].VsA.Throughput.Ratio != 0 {
		t.Errorf("compared: %v %v %v", rows[0].VsA, rows[1].VsA, rows[2].VsA)
	}
	if rows[1].Segment.Transition != 1000 {
		t.Errorf("transition of %d ns", rows[1].Segment.Transition)
	}
	if rows[0].P50 != 110*time.Nanosecond || rows[0].P95 != 119*time.Nanosecond {
		t.Errorf("p50 %v, p95 %v", rows[0].P50, rows[0].P95)
	}
	if r := rows[2]; r.P50 != 0 || r.SamplesPerSecond != 0 || r.Utilisation != 0 {
		t.Errorf("an empty segment has numbers: %+v", r)
	}
	snap.Baseline.Segment = 4
	if back := Segments(snap); !back[1].Baseline || back[0].VsA.Throughput.Ratio == 0 {
		t.Error("the baseline is not segment 4")
	}
}
