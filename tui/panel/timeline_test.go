package panel

import (
	"math"
	"strings"
	"testing"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// TestEnded: the timeline of a run that has ended stops at its last step, however long the program
// went on.
func TestEnded(t *testing.T) {
	const s = int64(1e9)
	for _, c := range []struct{ ended, edge int64 }{{0, 10*s + s/2}, {11 * s, s}} {
		snap := trace.Snapshot{Now: 11 * s}
		snap.Recent, snap.Outcome.Ended = []trace.Step{{Start: s / 2, End: s}}, c.ended
		var p Picture
		if p.Compute(&snap, 11*s); p.Edge != c.edge {
			t.Errorf("ended at %d: the edge is at %d, not %d", c.ended, p.Edge, c.edge)
		}
		tl := Timeline{cols: 100, cursor: -1}
		tl.Update(&p, []trace.Span{{Start: s, End: 11 * s, Kind: trace.KindStall, Track: trace.TrackStall, Arg: uint32(trace.CauseUnknown)}})
		if g := tl.longestGap(tl.first * tl.Bin()); g.Any() != (c.ended == 0) {
			t.Errorf("ended at %d: the longest stall is %+v", c.ended, g)
		}
		first, _ := tl.Window(p.Edge)
		for _, at := range []int64{snap.Now, math.MaxInt64} {
			if from, to := tl.SpanWindow(&snap, at); from > first || to < p.Edge {
				t.Errorf("ended at %d: spans are asked for from %d to %d, and shown from %d to %d", c.ended, from, to, first, p.Edge)
			}
		}
	}
}

// TestLanesOfTorch: a PyTorch script has no lane for copies, because they are not recorded.
func TestLanesOfTorch(t *testing.T) {
	for fact, copies := range map[string]bool{"torch": false, "go": true} {
		var p Picture
		p.Snap.Meta = trace.Meta{DeviceKind: "cuda", Host: []knob.Setting{{Name: fact, Value: "2.15.0"}}}
		tl := Timeline{cols: 80}
		if tl.layLanes(&p); (tl.busyAt[trace.TrackCopy] >= 0) != copies {
			t.Errorf("%s: %d lanes, of copies %v", fact, len(tl.lanes), !copies)
		}
	}
}

// TestLateHandOver: if the step loop gets a batch long after its collation, the text also names
// the hand-over. A window without a completed step is not said to be without stalls.
func TestLateHandOver(t *testing.T) {
	const ms = int64(1e6)
	tl := Timeline{cursor: -1, cols: 80, zoom: 3, known: 40 * ms, record: record{edge: 40 * ms, spans: []trace.Span{
		{Start: 1 * ms, End: 1*ms + 900, Batch: 7, Kind: trace.KindCollate, Track: trace.Worker(0)},
		{Start: 1 * ms, End: 30 * ms, Batch: 7, Kind: trace.KindStall, Track: trace.TrackStall, Arg: uint32(trace.CauseCollate)},
	}}}
	tl.explain(&Picture{}, false, false, false)
	if got := strings.Join(tl.said.lines, " "); !strings.Contains(got, "then the hand-over") {
		t.Errorf("a late hand-over reads %q", got)
	}
	tl = Timeline{cursor: -1, cols: 80, zoom: 3, first: 100, record: record{edge: 1e12, spans: []trace.Span{{Start: 1e12 - 5, End: 1e12, Track: trace.Worker(0)}}}}
	tl.explain(&Picture{}, false, false, false)
	if got := strings.Join(tl.said.lines, " "); !strings.Contains(got, "no step has ended") {
		t.Errorf("an open window reads %q", got)
	}
	tl.explain(&Picture{}, true, false, false)
	if got := strings.Join(tl.said.lines, " "); !strings.Contains(got, "paused") {
		t.Errorf("a pause reads %q", got)
	}
}

// TestLaunchOverhead: the text says whether launch overhead or slow enqueuing caused a stall.
func TestLaunchOverhead(t *testing.T) {
	const us = int64(1e3)
	stall := trace.Span{Start: 100 * us, End: 108 * us, Step: 4, Batch: 4, Kind: trace.KindStall, Track: trace.TrackStall, Arg: uint32(trace.CauseLaunch)}
	for enqueued, want := range map[int64]string{
		90 * us:  "device idle 8.00 µs: launch overhead",
		107 * us: "device idle 8.00 µs: the host was still enqueuing",
	} {
		tl := Timeline{cursor: -1, cols: 80, zoom: 0, known: 1000 * us, record: record{edge: 1000 * us, spans: []trace.Span{
			{Start: 80 * us, End: enqueued, Step: 4, Batch: 4, Kind: trace.KindEnqueue, Track: trace.TrackStep}, stall,
		}}}
		tl.explain(&Picture{}, false, false, false)
		if got := strings.Join(tl.said.lines, " "); !strings.Contains(got, want) {
			t.Errorf("enqueued until %d: %q", enqueued, got)
		}
	}
}

// TestLongestStall: adjacent pieces of a gap are one stall, and its parts are named. A longer stall
// replaces the text at once if the screen stands still, and after two seconds if it moves.
func TestLongestStall(t *testing.T) {
	const ms = int64(1e6)
	piece := func(start, end int64, c trace.Cause) trace.Span {
		return trace.Span{Start: start * ms, End: end * ms, Step: 4, Batch: 4, Kind: trace.KindStall, Track: trace.TrackStall, Arg: uint32(c)}
	}
	tl := Timeline{cursor: -1, cols: 120, zoom: 3, known: 400 * ms, record: record{edge: 400 * ms, spans: []trace.Span{
		piece(0, 60, trace.CauseDecode), piece(100, 138, trace.CauseRead), piece(138, 218, trace.CauseDecode),
		piece(218, 250, trace.CauseCopy), piece(300, 390, trace.CausePaused),
	}}}
	var pic Picture
	says := func(moves bool, want string) {
		t.Helper()
		tl.explain(&pic, false, false, moves)
		if got := strings.Join(tl.said.lines, " "); !strings.Contains(got, want) {
			t.Errorf("it reads %q, want %q", got, want)
		}
	}
	says(true, "idle 150 ms waiting for batch 4 (decode 80.0 ms, read 38.0 ms, copy 32.0 ms)")
	tl.spans = append(tl.spans, piece(600, 800, trace.CauseRead))
	tl.first, tl.edge, tl.known = 590, 900*ms, 900*ms
	says(true, "device idle 150 ms waiting for batch 4")
	says(false, "device idle 200 ms waiting for batch 4")
	tl.spans = append(tl.spans, piece(1000, 1300, trace.CauseRead))
	tl.edge, tl.known = 1400*ms, 1400*ms
	says(true, "device idle 200 ms waiting for batch 4")
	tl.edge, tl.known = 2901*ms, 2901*ms
	says(true, "device idle 300 ms waiting for batch 4")
	tl.cursor = 120 * ms
	says(true, "idle 150 ms waiting for batch 4 (decode 80.0 ms, read 38.0 ms, copy 32.0 ms)")
	tl.cursor = 320 * ms
	says(true, "paused by you for 90.0 ms")
	pic.Snap.Gauges = map[string][]trace.Point{trace.GaugeTestLoss: {{T: 350 * ms}}, trace.GaugeTestTook: {{V: 50e6}}}
	tl.said.about = [3]int64{}
	says(true, "the model was evaluated for 90.0 ms")
}

// TestPhaseBeyondView: the time of a phase that began before the view is given in full, so that its
// wait for a core is a part of it.
func TestPhaseBeyondView(t *testing.T) {
	const ms = int64(1e6)
	step := trace.Step{Index: 4, Batch: 4}
	*step.Work.Phases.Of(trace.KindDecode) = trace.Split{Core: 120 * ms, Waiting: 80 * ms}
	tl := Timeline{cursor: -1, cols: 120, zoom: 3, known: 400 * ms, record: record{edge: 400 * ms, steps: []trace.Step{step}, spans: []trace.Span{
		{Start: 100 * ms, End: 150 * ms, Step: -1, Batch: 4, Kind: trace.KindDecode, Track: trace.Worker(0)},
		{Start: 100 * ms, End: 150 * ms, Step: 4, Batch: 4, Kind: trace.KindStall, Track: trace.TrackStall, Arg: uint32(trace.CauseDecode)},
	}}}
	tl.explain(&Picture{}, false, false, false)
	if got, want := strings.Join(tl.said.lines, " "), "w0 decode took 200 ms, 80.0 ms of it waiting for a core"; !strings.Contains(got, want) {
		t.Errorf("it reads %q, want %q", got, want)
	}
}
