package tui

import (
	"strings"
	"testing"
	"time"

	"dev.gpustall/tui/internal/demo"
)

// TestReplay: keys move the time, and knobs cannot be changed.
func TestReplay(t *testing.T) {
	run := demo.Session()
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

// TestHelpOfAReplay: the help leaves out keys that do nothing in a replay.
func TestHelpOfAReplay(t *testing.T) {
	run := demo.Session()
	live, replayed := []string{"stage a step", "pause the training", "undo the last", "find the fastest", "hypothesis", "Cached batches"}, []string{"play or stop", "move the cursor", "make these settings", "export the report"}
	s := newScreen(t, run, Options{Replay: true}, 120, 60)
	s.press("?")
	s.mustShow(replayed...)
	s.mustHide(live...)
	s = newScreen(t, run, Options{Control: run}, 120, 60)
	s.press("?")
	s.mustShow(live...)
	s.mustHide("play or stop")
}

// TestStart: g shows a full timeline that begins where the recording does. If the first step ends
// later than that, it shows the end of the step.
func TestStart(t *testing.T) {
	run := demo.Session()
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	s.press("g")
	if from, _ := s.panels.timeline.Window(s.session.pic.At); !s.session.moment.frozen || from != 0 || s.session.pic.At >= s.session.live.Now {
		t.Errorf("frozen %v at %d, from %d", s.session.moment.frozen, s.session.pic.At, from)
	}
	s.mustShow("FROZEN", "samples/s")
	s.mustHide("waiting for the first step")
	for range 15 { // to columns so narrow that the first step does not fit
		s.press("z")
	}
	s.press("g")
	first := s.session.live.First.End
	if from, to := s.panels.timeline.Window(s.session.pic.At); from >= first || first >= to {
		t.Errorf("the first step ends at %d, the timeline shows %d to %d", first, from, to)
	}
	for range 15 { // and so wide that the recording does
		s.press("Z")
	}
	s.press("g")
	s.mustShow("from its start to now")
	s.press("G")
	if s.session.moment.frozen {
		t.Error("G does not go on")
	}
}

// TestBeforeTheFirstStep: before the first step the screen does not say that the device never waited.
func TestBeforeTheFirstStep(t *testing.T) {
	run := demo.New(nil)
	for run.Advance(1e6); len(run.Snapshot(0, 0).Recent) == 0 && run.Now() < 1e9; run.Advance(run.Now() + 1e6) {
		s := newScreen(t, run, Options{Control: run}, 120, 36)
		s.mustHide("the device never waited")
	}
}

// TestFreeze: the screen stands still while the run goes on.
func TestFreeze(t *testing.T) {
	run := demo.Session()
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	s.press("space")
	frame := s.plain()
	run.Until(9500)
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

// TestCursor: moments of stalls and of computing are explained, and the cursor stays in the window.
func TestCursor(t *testing.T) {
	run := demo.Session()
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	s.press("1")
	var seen []string
	for range s.panels.timeline.Cols() {
		s.press("left")
		seen = append(seen, strings.Join(strings.Fields(s.box("timeline")), " "))
	}
	all := strings.Join(seen, "\n")
	for _, want := range []string{"idle ", " waiting for batch ", " transform took ", "computes batch ", "took ", "w1 transform #"} {
		if !strings.Contains(all, want) {
			t.Errorf("no moment is explained with %q:\n%s", want, all)
		}
	}
	inView := func(after string) {
		at := s.panels.timeline.Cursor()
		if from, to := s.panels.timeline.Window(s.session.pic.Edge); at < from || at >= to {
			t.Errorf("after %s the cursor is at %d, the window from %d to %d", after, at, from, to)
		}
	}
	for _, key := range []string{"{", "[", "z", "z", "}", "Z"} {
		s.press(key)
		inView(key)
	}
	s.press("esc")
	if s.panels.timeline.Cursor() >= 0 {
		t.Error("esc keeps the cursor")
	}
}

// TestFilter: only lanes whose names contain the filter are shown.
func TestFilter(t *testing.T) {
	run := demo.Session()
	s := newScreen(t, run, Options{Control: run}, 200, 50)
	shown := func() (lanes []string) {
		for line := range strings.Lines(s.box("timeline")) {
			for _, name := range []string{"w0", "w1", "w2", "w3", "host", "ready q", "H2D", "compute", "STALL"} {
				if strings.HasPrefix(line, " "+name+" ") {
					lanes = append(lanes, name)
				}
			}
		}
		return lanes
	}
	s.press("/", "w", "1", "enter")
	if got := shown(); len(got) != 1 || got[0] != "w1" {
		t.Errorf("the filter w1 leaves %v", got)
	}
	s.press("/", "z", "enter")
	s.mustShow("no lane matches /z")
	s.press("esc")
	if got := shown(); len(got) != 9 {
		t.Errorf("without a filter there are the lanes %v, want 9", got)
	}
}
