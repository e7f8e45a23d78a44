package tui

import (
	"errors"
	"strings"
	"testing"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/internal/demo"
	"dev.gpustall/tui/panel"
)

// TestGuide goes through the story: each chapter ends when the session shows what it
// asks for, and not before.
func TestGuide(t *testing.T) {
	run := demo.Fed(nil)
	exports := 0
	s := newScreen(t, run, Options{Control: run, Export: func() (string, error) {
		if exports++; exports == 2 {
			return "", errors.New("no room")
		}
		return "x.md", nil
	}}, 120, 36)
	var now int64
	wait := func(seconds int64) {
		now += seconds * 1e9
		run.Advance(now)
		s.tick()
	}
	at := func(c chapter, words ...string) {
		t.Helper()
		if s.guide.chapter != c {
			t.Fatalf("chapter %d, want %d:\n%s", s.guide.chapter, c, s.plain())
		}
		s.mustShow(words...)
	}
	wait(5)
	at(chapterNone)
	wait(6)
	at(chapterOffer, "Nothing is wrong here", "S injects")
	s.press("S")
	at(chapterInject, "asked for")
	wait(1)
	at(chapterFind, "1 of 4, find", "INJECTED")
	s.press("e") // an export that comes too early is none
	wait(1)
	at(chapterFind)
	wait(12)
	at(chapterFix, "2 of 4, fix", "input-bound")
	if s.session.analysis.Win.Data < guideShare {
		t.Errorf("%.2f of the time is lost to data", s.session.analysis.Win.Data)
	}
	if b := run.Snapshot(0, 0).Baseline.Segment; b != 1 {
		t.Errorf("baseline A is #%d, want the injected one", b)
	}
	s.press("3", "enter")
	wait(1)
	at(chapterFix, "is staged", "apply it")
	s.press("enter")
	wait(1)
	at(chapterProve, "3 of 4, prove", "Nothing of it is measured yet")
	wait(30)
	at(chapterExport, "Proved: +", "4 of 4, export")
	s.press("e")
	wait(1)
	at(chapterExport) // it failed
	s.press("e")
	wait(1)
	at(chapterStop, "Exported to x.md", "S stops injecting")
	s.press("S")
	wait(2)
	at(chapterEnd, "The story is over")
	s.press("esc")
	wait(30)
	at(chapterNone)
	s.mustHide("STORY")
}

// TestGuideOnSharedCores: the story is offered although the device shares cores with the loader, as
// long as no knob helps.
func TestGuideOnSharedCores(t *testing.T) {
	run := demo.Fed(nil)
	for at := range int64(30) {
		run.Gauge(trace.GaugeStarved, at*1e9, 30) // %
	}
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	for to := int64(11); to < 30 && s.guide.chapter != chapterFix; to += 3 {
		run.Advance(to * 1e9)
		s.tick()
		if s.guide.chapter == chapterOffer {
			s.mustShow("HOST-BOUND", "Loader settings won't help; free CPU cores", "S injects")
			s.press("S")
		}
	}
	s.mustShow("INPUT-BOUND", "2 of 4, fix")
}

// TestGuideInVain: after a fix that did not help, the story asks for another one. Baseline A stays
// the same.
func TestGuideInVain(t *testing.T) {
	run := demo.Fed(nil)
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	at := int64(0)
	until := func(c chapter) {
		t.Helper()
		for end := at + 60; s.guide.chapter != c; at++ {
			if at == end {
				t.Fatalf("chapter %d, want %d:\n%s", s.guide.chapter, c, s.plain())
			}
			run.Advance(at * 1e9)
			s.tick()
		}
	}
	until(chapterOffer)
	s.press("S")
	until(chapterFix)
	s.mustShow("fix: found input-bound", "#1 is baseline A")
	at += 120 // long enough to be compared with
	run.Advance(at * 1e9)
	_ = run.Set([]knob.Setting{{Name: "num_workers", Value: "4"}})
	until(chapterProve)
	until(chapterFix)
	s.mustShow("fix: #2 is no faster than #1, baseline A")
	if b := run.Snapshot(0, 0).Baseline.Segment; b != 1 {
		t.Errorf("baseline A is #%d", b)
	}
	_ = run.Set([]knob.Setting{{Name: "num_workers", Value: "32"}})
	until(chapterExport)
	s.mustShow("#3 against #1")
}

// TestGuideStays: the story is not offered if something was changed or is wrong. The
// user leaves it with esc. It ends when the injection is taken back.
func TestGuideStays(t *testing.T) {
	wait := func(s *screen, run *demo.Run, to int64) { run.Advance(to * 1e9); s.tick() }
	for name, prepare := range map[string]func(*demo.Run){
		"changed":  func(r *demo.Run) { r.Advance(2e9); _ = r.Set([]knob.Setting{{Name: "prefetch_factor", Value: "4"}}) },
		"injected": func(r *demo.Run) { _ = r.Set([]knob.Setting{{Name: "inject_cpu", Value: "9ms"}}) },
	} {
		run := demo.Fed(nil)
		prepare(run)
		s := newScreen(t, run, Options{Control: run}, 120, 36)
		if wait(s, run, 30); s.guide.chapter != chapterNone {
			t.Errorf("%s: the story is offered", name)
		}
		s.mustHide("STORY")
	}
	run := demo.Fed(nil)
	s := newScreen(t, run, Options{Control: run}, 80, 24)
	wait(s, run, 12)
	s.mustShow("STORY")
	s.press("S")
	wait(s, run, 14)
	s.mustShow("STALL lane")
	// The lane that the story tells of is shown even below a long verdict.
	s.guide.strip.Set([]string{"one", "two", "three"})
	told := &s.session.analysis.Told.Verdict
	told.Text = told.Class + strings.Repeat(", much to say", 90)
	for i, r := range s.arrange().panels {
		if s.focus.panels[i].Describe().Name == "timeline" && r.H < panel.LeastRows {
			t.Errorf("the timeline has %d rows", r.H)
		}
	}
	s.press("u")
	wait(s, run, 20)
	if s.guide.chapter != chapterEnd || strings.Contains(s.plain(), "Proved") {
		t.Errorf("chapter %d after undo:\n%s", s.guide.chapter, s.plain())
	}
	s.press("esc")
	wait(s, run, 60)
	s.mustHide("STORY")
}
