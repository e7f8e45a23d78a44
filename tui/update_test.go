package tui

import (
	"strings"
	"testing"
	"time"

	"dev.gpustall/tui/internal/demo"
)

func TestQuit(t *testing.T) {
	run := demo.Session()
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	if s.press("q"); s.exit.quit {
		t.Error("q quit without asking while training runs")
	}
	s.mustShow("Quit?")
	s.press("n")
	s.mustHide("Quit?")
	if s.press("q", "y"); !s.exit.quit {
		t.Error("q and y do not quit")
	}
	run.End("finished")
	s = newScreen(t, run, Options{Control: run}, 120, 36)
	if s.press("q"); !s.exit.quit {
		t.Error("q asks although the run has ended")
	}
}

// TestBaseline: a makes the selected row baseline A.
func TestBaseline(t *testing.T) {
	run := demo.Session()
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	s.press("5", "up", "a")
	if got := run.Snapshot(0, 0).Baseline.Segment; got != 1 {
		t.Errorf("the baseline is #%d, want 1", got)
	}
	s.mustShow("A#1")
	if c := &s.session.analysis.Segs[0].VsA.Throughput; c.Ratio == 0 || c.Ratio > 1 {
		t.Errorf("#0 against A #1: %+v", s.session.analysis.Segs[0].VsA)
	}
}

// TestOldTick: after a change of the rate only the new tick goes on.
func TestOldTick(t *testing.T) {
	run := demo.Session()
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	gen := s.pace.ticks
	s.press("+")
	if s.pace.fps != 15 {
		t.Errorf("+ gives %d frames a second, want 15", s.pace.fps)
	}
	if _, cmd := s.Update(tickMsg{gen: gen}); cmd != nil {
		t.Error("the old tick goes on beside the new one")
	}
	for range 10 {
		s.press("-")
	}
	if s.pace.fps != 1 {
		t.Errorf("- ends at %d frames a second, want 1", s.pace.fps)
	}
}

// TestMessageGoes: a message is removed after five seconds of ticks. An error stays.
func TestMessageGoes(t *testing.T) {
	run := demo.Session()
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	for level, stays := range map[string]bool{"info": false, "error": true} {
		s.Say(level, "a word")
		for range 5 * s.pace.fps {
			s.mustShow("a word")
			s.Update(tickMsg{gen: s.pace.ticks, now: time.Now()})
		}
		if shown := strings.Contains(s.plain(), "a word"); shown != stays {
			t.Errorf("%s: shown after five seconds: %v, want %v", level, shown, stays)
		}
	}
}
