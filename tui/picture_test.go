package tui

import (
	"fmt"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/internal/demo"
)

// TestPictureOfAMoment shows nothing later than the moment.
func TestPictureOfAMoment(t *testing.T) {
	run := session()
	s := run.Snapshot(0, math.MaxInt64)
	var p picture
	for at := int64(0); at <= s.Now; at += 250e6 {
		p.compute(s, at)
		for i := range p.snap.Recent {
			if p.snap.Recent[i].End > at {
				t.Fatalf("at %d there is step %d, which ends at %d", at, i, p.snap.Recent[i].End)
			}
		}
		steps := attribution.Window(&p.snap)
		if w := newWindow(steps); w.floor > w.p50 {
			t.Fatalf("at %d the compute floor of a step, %d ns, is over its median, %d ns", at, w.floor, w.p50)
		}
		if p.next && p.seg.Start > at {
			t.Fatalf("at %d configuration #%d is in force, which starts at %d", at, p.seg.Index, p.seg.Start)
		}
		for _, st := range steps {
			if st.Segment != steps[0].Segment {
				t.Fatalf("at %d the window mixes configurations", at)
			}
		}
	}
	if w := newWindow(attribution.Window(&p.snap)); w.steps() == 0 || w.util <= 0 || w.util > 1 {
		t.Errorf("the last window has %d steps and utilisation %v", w.steps(), w.util)
	}
	if len(s.Recent) == len(p.snap.Recent) && len(s.Recent) == 0 {
		t.Error("no steps at all")
	}
}

// TestWindowIsSettled: the steps of a transition are left out once others exist.
func TestWindowIsSettled(t *testing.T) {
	run := session()
	var p picture
	p.compute(run.Snapshot(0, 0), run.Now())
	for _, st := range attribution.Window(&p.snap) {
		if st.Flags&trace.FlagTransition != 0 {
			t.Fatalf("step %d of the transition is in the window", st.Index)
		}
	}
	if p.seg.Index != 2 || p.seg.TransitionSteps == 0 {
		t.Fatalf("the session ends in %+v", p.seg)
	}
}

// TestOneWindow: verdict, gauges, breakdown and the row of the current configuration
// speak of the same steps: the longer of 5 s and 50 steps.
func TestOneWindow(t *testing.T) {
	for _, tt := range []struct {
		step  int64 // ns
		steps int
		want  int64
	}{
		{10e6, 2000, 500}, {200e6, 100, 50}, {10e6, 30, 30}, {1e6, 8000, attribution.WindowMost},
	} {
		var snap trace.Snapshot
		for i := range tt.steps {
			at := int64(i) * tt.step
			snap.Recent = append(snap.Recent, trace.Step{Index: int32(i), Start: at, End: at + tt.step, Busy: tt.step, Samples: 1})
		}
		if w := newWindow(attribution.Window(&snap)); w.steps() != tt.want {
			t.Errorf("%d steps of %d ns make a window of %d, want %d", tt.steps, tt.step, w.steps(), tt.want)
		}
	}
	run := session()
	s := newScreen(t, run, Options{Control: run}, 160, 45)
	advance(run, 20_000)
	s.tick()
	s.View()
	w := s.session.analysis.win
	row := &s.panels.experiments.rows[len(s.panels.experiments.rows)-1]
	if v := s.session.analysis.told.Verdict; int64(v.Steps) != w.steps() || row.steps != w.steps() || row.rate != w.rate {
		t.Errorf("the verdict is of %d steps, the gauges of %d, the row of %d", v.Steps, w.steps(), row.steps)
	}
	s.mustShow("the last 5.", "mean ", "p50 ")
}

// TestEmptySession: a session of which nothing is recorded fills a screen of any size, and has
// no number that comes from dividing by nothing.
func TestEmptySession(t *testing.T) {
	wrong := regexp.MustCompile(`NaN|[Ii]nf\b|%!`)
	for _, replay := range []bool{false, true} {
		s := &screen{New(Options{Source: still{&trace.Snapshot{}}, Replay: replay}), t, nil}
		for _, size := range sizes {
			s.layout.w, s.layout.h = size[0], size[1]
			s.look()
			frame := s.plain()
			lines := strings.Split(frame, "\n")
			if len(lines) != size[1] || slices.ContainsFunc(lines, func(line string) bool { return utf8.RuneCountInString(line) > size[0] }) {
				t.Errorf("%v, replay %v: %d lines:\n%s", size, replay, len(lines), frame)
			}
			if strings.TrimSpace(frame) == "" || wrong.MatchString(frame) {
				t.Errorf("%v, replay %v:\n%s", size, replay, frame)
			}
		}
	}
}

// TestNothingRecorded: where no span is left a lane has no share, and 0 % is one.
func TestNothingRecorded(t *testing.T) {
	run := session()
	run.End("finished")
	snap := run.Snapshot(0, math.MaxInt64)
	shown := func(spans []trace.Span) string {
		snap.Spans = spans
		s := &screen{New(Options{Source: still{snap}, Replay: true}), t, run}
		s.send(tea.WindowSizeMsg{Width: 120, Height: 36})
		s.tick()
		return s.plain()
	}
	share := regexp.MustCompile(`compute .*\d+(\.\d)?%`)
	if text := shown(snap.Spans); !share.MatchString(text) {
		t.Errorf("no share of the compute lane:\n%s", text)
	}
	for _, line := range strings.Split(shown(nil), "\n") {
		if strings.Contains(line, "compute ") && strings.Contains(line, " 0.0%") {
			t.Errorf("nothing recorded shows as 0 %%: %s", line)
		}
	}
}

// TestPinLane: the thread that page-locks what workers made has a lane of its own.
func TestPinLane(t *testing.T) {
	run := session()
	run.End("finished")
	snap := run.Snapshot(0, math.MaxInt64)
	pinned := trace.Span{Start: snap.Now - 500e6, End: snap.Now - 100e6, Step: -1, Batch: 1, Kind: trace.KindPin, Track: trace.TrackPin}
	snap.Spans = append(snap.Spans, pinned)
	s := &screen{New(Options{Source: still{snap}, Replay: true}), t, run}
	s.send(tea.WindowSizeMsg{Width: 120, Height: 50})
	s.tick()
	s.mustShow("│ pin  ")
	s.mustHide("inline")
}

type still struct{ s *trace.Snapshot }

func (s still) Snapshot(int64, int64) *trace.Snapshot { c := *s.s; return &c }

// TestWaitsMakeNothingOlder: how often the timeline and the verdict are renewed follows from
// what they cost, and waiting, for a core as for anything else, costs nothing.
func TestWaitsMakeNothingOlder(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("what a thread computed is not known here")
	}
	run := session()
	s := &screen{New(Options{Source: waiting{run}, Control: run}), t, run}
	s.send(tea.WindowSizeMsg{Width: 120, Height: 50})
	s.tick()
	if s.session.spansPause >= 100*wait || s.session.analysis.pause >= 100*wait {
		t.Errorf("the timeline waits %v, the verdict %v", s.session.spansPause, s.session.analysis.pause)
	}
}

// TestAnalysisPanics: what breaks the analysis breaks the screen's own goroutine, where the
// terminal is restored before it is told.
func TestAnalysisPanics(t *testing.T) {
	run := session()
	s := newScreen(t, run, Options{}, 120, 50)
	s.o.Source = broken{run}
	defer func() {
		if p := fmt.Sprint(recover()); !strings.HasPrefix(p, "the analysis broke\n") || !strings.Contains(p, "tui.Analyse") {
			t.Errorf("it panicked with %q", p)
		}
	}()
	s.follow(s.session.analyse(time.Now(), true))
}

// broken is a source that the analysis cannot read.
type broken struct{ *demo.Run }

func (broken) Snapshot(int64, int64) *trace.Snapshot { panic("the analysis broke") }

// waiting is a source that has no core for a while.
type waiting struct{ *demo.Run }

const wait = 300 * time.Millisecond

func (w waiting) Snapshot(from, to int64) *trace.Snapshot {
	time.Sleep(wait)
	return w.Run.Snapshot(from, to)
}
