package tui

import (
	"math"
	"strings"
	"testing"
	"time"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/internal/demo"
)

// TestReplay: time moves by keys, knobs do not.
func TestReplay(t *testing.T) {
	run := session()
	run.End("finished")
	s := newScreen(t, run, Options{Replay: true}, 120, 36)
	s.mustShow("REPLAY", "FINISHED", "at 00:00:09 of 00:00:09", "read-only")
	s.press("2", "right")
	s.mustShow("a replay's knobs are read-only")
	s.press("g")
	start := s.session.moment.at
	s.mustHide("waiting for the first step")
	s.press("space")
	s.mustShow("PLAYING")
	t0 := time.Unix(100, 0)
	s.advance(t0)
	for i := 1; i <= 40; i++ {
		s.advance(t0.Add(time.Duration(i) * 100 * time.Millisecond))
	}
	if s.session.moment.at != start+4e9 {
		t.Errorf("after 4 s of playing from %d it shows %d ns", start, s.session.moment.at)
	}
	s.mustShow("PLAYING 00:00:04", "cfg #0")
	s.press("G")
	s.mustShow("cfg #2")
	s.press("space") // from the end it begins again
	if s.session.moment.at != 0 || !s.session.moment.play {
		t.Errorf("space at the end: at %d, playing %v", s.session.moment.at, s.session.moment.play)
	}
}

// TestHelpOfAReplay: it has no key that does nothing there.
func TestHelpOfAReplay(t *testing.T) {
	run := session()
	live, replayed := []string{"stage a step", "pause the engine", "undo the last", "find the fastest", "hypothesis", "Cached batches"}, []string{"play or stop", "move the cursor", "make this configuration", "export the report"}
	s := newScreen(t, run, Options{Replay: true}, 120, 60)
	s.press("?")
	s.mustShow(replayed...)
	s.mustHide(live...)
	s = newScreen(t, run, Options{Control: run}, 120, 60)
	s.press("?")
	s.mustShow(live...)
	s.mustHide("play or stop")
}

// TestStart: g shows a timeline that is full from the recording's start, or has
// the first step's end in it where that comes later.
func TestStart(t *testing.T) {
	run := session()
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	s.press("g")
	if from, _ := s.panels.timeline.Window(s.session.pic.at); !s.session.moment.frozen || from != 0 || s.session.pic.at >= s.session.live.Now {
		t.Errorf("frozen %v at %d, from %d", s.session.moment.frozen, s.session.pic.at, from)
	}
	s.mustShow("FROZEN", "samples/s")
	s.mustHide("waiting for the first step")
	for range zooms { // to columns so narrow that the first step does not fit
		s.press("z")
	}
	s.press("g")
	first := s.session.live.First.End
	if from, to := s.panels.timeline.Window(s.session.pic.at); from >= first || first >= to {
		t.Errorf("the first step ends at %d, the timeline shows %d to %d", first, from, to)
	}
	for range zooms { // and so wide that the recording does
		s.press("Z")
	}
	s.press("g")
	s.mustShow("from its start to now")
	s.press("G")
	if s.session.moment.frozen {
		t.Error("G does not go on")
	}
}

// TestBeforeTheFirstStep nothing claims that the device never waited.
func TestBeforeTheFirstStep(t *testing.T) {
	run := demo.New(nil)
	for run.Advance(1e6); len(run.Snapshot(0, 0).Recent) == 0 && run.Now() < 1e9; run.Advance(run.Now() + 1e6) {
		s := newScreen(t, run, Options{Control: run}, 120, 36)
		s.mustHide("the device never waited")
	}
}

// TestFreeze: the run goes on, the screen does not.
func TestFreeze(t *testing.T) {
	run := session()
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	s.press("space")
	frame := s.plain()
	advance(run, 9500)
	s.tick()
	s.mustShow("FROZEN -500ms")
	if got := s.plain(); strings.Count(got, "\n") != strings.Count(frame, "\n") || !sameLine(got, frame, "STALL") {
		t.Errorf("the frozen timeline moved:\n%s\n%s", frame, got)
	}
	s.press("[")
	s.mustShow("FROZEN -630ms")
	s.press("]", "]")
	if s.session.moment.frozen && s.session.moment.at < s.session.live.Now-440e6 {
		t.Errorf("] did not move forward: at %d of %d", s.session.moment.at, s.session.live.Now)
	}
	s.press("G")
	s.mustHide("FROZEN")
}

func sameLine(a, b, word string) bool {
	find := func(s string) string {
		for _, l := range strings.Split(s, "\n") {
			if strings.Contains(l, word) {
				return l
			}
		}
		return ""
	}
	return find(a) == find(b)
}

// TestCursor asks about moments: of a stall, and of computing.
func TestCursor(t *testing.T) {
	run := session()
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	s.press("1")
	var seen []string
	for range s.panels.timeline.cols {
		s.press("left")
		seen = append(seen, strings.Join(s.panels.timeline.said.lines, " "))
	}
	all := strings.Join(seen, "\n")
	for _, want := range []string{"starved ", " transform took ", "computes batch ", "took ", "w1 transform #"} {
		if !strings.Contains(all, want) {
			t.Errorf("no moment is explained with %q:\n%s", want, all)
		}
	}
	inView := func(after string) {
		if from := s.panels.timeline.first * s.panels.timeline.Bin(); s.panels.timeline.cursor < from || s.panels.timeline.cursor >= s.panels.timeline.edge {
			t.Errorf("after %s the cursor is at %d, the window from %d to %d", after, s.panels.timeline.cursor, from, s.panels.timeline.edge)
		}
	}
	for _, key := range []string{"{", "[", "z", "z", "}", "Z"} {
		s.press(key)
		inView(key)
	}
	s.press("esc")
	if s.panels.timeline.cursor >= 0 {
		t.Error("esc keeps the cursor")
	}
}

// TestEnded: the timeline of a run that has ended ends with its last step, however long the
// program went on.
func TestEnded(t *testing.T) {
	const s = int64(1e9)
	for _, c := range []struct{ ended, edge int64 }{{0, 10*s + s/2}, {11 * s, s}} {
		snap := trace.Snapshot{Now: 11 * s}
		snap.Recent, snap.Outcome.Ended = []trace.Step{{Start: s / 2, End: s}}, c.ended
		var p picture
		if p.compute(&snap, 11*s); p.edge != c.edge {
			t.Errorf("ended at %d: the edge is at %d, not %d", c.ended, p.edge, c.edge)
		}
		tl := Timeline{cols: 100, cursor: -1}
		tl.Update(&p, []trace.Span{{Start: s, End: 11 * s, Kind: trace.KindStall, Track: trace.TrackStall, Arg: uint32(trace.CauseUnknown)}})
		if g := tl.longestGap(tl.first * tl.Bin()); g.Any() != (c.ended == 0) {
			t.Errorf("ended at %d: the longest stall is %+v", c.ended, g)
		}
		first, _ := tl.Window(p.edge)
		for _, at := range []int64{snap.Now, math.MaxInt64} {
			if from, to := tl.SpanWindow(&snap, at); from > first || to < p.edge {
				t.Errorf("ended at %d: spans are asked for from %d to %d, and shown from %d to %d", c.ended, from, to, first, p.edge)
			}
		}
	}
}

// TestLanesOfTorch: of a script in PyTorch, whose copies to its device are not seen, no lane is kept for them.
func TestLanesOfTorch(t *testing.T) {
	for fact, copies := range map[string]bool{"torch": false, "go": true} {
		var p picture
		p.snap.Meta = trace.Meta{DeviceKind: "cuda", Host: []knob.Setting{{Name: fact, Value: "2.15.0"}}}
		tl := Timeline{cols: 80}
		if tl.layLanes(&p); (tl.busyAt[trace.TrackCopy] >= 0) != copies {
			t.Errorf("%s: %d lanes, of copies %v", fact, len(tl.lanes), !copies)
		}
	}
}

// TestLateHandOver: a batch that was collated long before the step loop had it is
// not explained by its collation alone, and a window without a step is no window
// without stalls.
func TestLateHandOver(t *testing.T) {
	const ms = int64(1e6)
	tl := Timeline{cursor: -1, cols: 80, zoom: 3, known: 40 * ms, record: record{edge: 40 * ms, spans: []trace.Span{
		{Start: 1 * ms, End: 1*ms + 900, Batch: 7, Kind: trace.KindCollate, Track: trace.Worker(0)},
		{Start: 1 * ms, End: 30 * ms, Batch: 7, Kind: trace.KindStall, Track: trace.TrackStall, Arg: uint32(trace.CauseCollate)},
	}}}
	tl.explain(&picture{}, false, false, false)
	if got := strings.Join(tl.said.lines, " "); !strings.Contains(got, "then the hand-over") {
		t.Errorf("a late hand-over reads %q", got)
	}
	tl = Timeline{cursor: -1, cols: 80, zoom: 3, first: 100, record: record{edge: 1e12, spans: []trace.Span{{Start: 1e12 - 5, End: 1e12, Track: trace.Worker(0)}}}}
	tl.explain(&picture{}, false, false, false)
	if got := strings.Join(tl.said.lines, " "); !strings.Contains(got, "no step has ended") {
		t.Errorf("an open window reads %q", got)
	}
	tl.explain(&picture{}, true, false, false)
	if got := strings.Join(tl.said.lines, " "); !strings.Contains(got, "paused") {
		t.Errorf("a pause reads %q", got)
	}
}

// TestLaunchOverhead: what the device takes to begin is told from slow enqueuing.
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
		tl.explain(&picture{}, false, false, false)
		if got := strings.Join(tl.said.lines, " "); !strings.Contains(got, want) {
			t.Errorf("enqueued until %d: %q", enqueued, got)
		}
	}
}

// TestLongestStall: the adjacent pieces of one gap are one stall, whose parts are
// named; a longer one is told of at once where the screen stands still, and after two
// seconds where it moves.
func TestLongestStall(t *testing.T) {
	const ms = int64(1e6)
	piece := func(start, end int64, c trace.Cause) trace.Span {
		return trace.Span{Start: start * ms, End: end * ms, Step: 4, Batch: 4, Kind: trace.KindStall, Track: trace.TrackStall, Arg: uint32(c)}
	}
	tl := Timeline{cursor: -1, cols: 120, zoom: 3, known: 400 * ms, record: record{edge: 400 * ms, spans: []trace.Span{
		piece(0, 60, trace.CauseDecode), piece(100, 138, trace.CauseRead), piece(138, 218, trace.CauseDecode),
		piece(218, 250, trace.CauseCopy), piece(300, 390, trace.CausePaused),
	}}}
	var pic picture
	says := func(moves bool, want string) {
		t.Helper()
		tl.explain(&pic, false, false, moves)
		if got := strings.Join(tl.said.lines, " "); !strings.Contains(got, want) {
			t.Errorf("it reads %q, want %q", got, want)
		}
	}
	says(true, "step 4 starved 150 ms (decode 80.0 ms, read 38.0 ms, copy 32.0 ms)")
	tl.spans = append(tl.spans, piece(600, 800, trace.CauseRead))
	tl.first, tl.edge, tl.known = 590, 900*ms, 900*ms
	says(true, "starved 150 ms")
	says(false, "starved 200 ms")
	tl.spans = append(tl.spans, piece(1000, 1300, trace.CauseRead))
	tl.edge, tl.known = 1400*ms, 1400*ms
	says(true, "starved 200 ms")
	tl.edge, tl.known = 2901*ms, 2901*ms
	says(true, "starved 300 ms")
	tl.cursor = 120 * ms
	says(true, "starved 150 ms (decode 80.0 ms, read 38.0 ms, copy 32.0 ms)")
	tl.cursor = 320 * ms
	says(true, "paused by you for 90.0 ms")
	pic.snap.Gauges = map[string][]trace.Point{trace.GaugeTestLoss: {{T: 350 * ms}}, trace.GaugeTestTook: {{V: 50e6}}}
	tl.said.about = [3]int64{}
	says(true, "the model was evaluated for 90.0 ms")
}

// TestPhaseBeyondView: of a phase that began before the view all is told, so that what it
// waited for a core is a part of it.
func TestPhaseBeyondView(t *testing.T) {
	const ms = int64(1e6)
	step := trace.Step{Index: 4, Batch: 4}
	*step.Work.Phases.Of(trace.KindDecode) = trace.Split{Core: 120 * ms, Waiting: 80 * ms}
	tl := Timeline{cursor: -1, cols: 120, zoom: 3, known: 400 * ms, record: record{edge: 400 * ms, steps: []trace.Step{step}, spans: []trace.Span{
		{Start: 100 * ms, End: 150 * ms, Step: -1, Batch: 4, Kind: trace.KindDecode, Track: trace.Worker(0)},
		{Start: 100 * ms, End: 150 * ms, Step: 4, Batch: 4, Kind: trace.KindStall, Track: trace.TrackStall, Arg: uint32(trace.CauseDecode)},
	}}}
	tl.explain(&picture{}, false, false, false)
	if got, want := strings.Join(tl.said.lines, " "), "w0 decode took 200 ms, 80.0 ms of it waiting for a core"; !strings.Contains(got, want) {
		t.Errorf("it reads %q, want %q", got, want)
	}
}

// TestFilter keeps lanes by name.
func TestFilter(t *testing.T) {
	run := session()
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	s.press("/", "w", "1", "enter")
	if len(s.panels.timeline.lanes) != 1 || s.panels.timeline.lanes[0].track != trace.Worker(1) {
		t.Errorf("the filter w1 leaves %v", s.panels.timeline.lanes)
	}
	s.press("/", "z", "enter")
	s.mustShow("no lane matches /z")
	s.press("esc")
	if len(s.panels.timeline.lanes) != 9 {
		t.Errorf("without a filter there are %d lanes, want 9", len(s.panels.timeline.lanes))
	}
}
