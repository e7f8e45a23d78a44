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

	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/internal/demo"
)

// TestWindowShows: verdict and gauges show the numbers of the window that they name.
func TestWindowShows(t *testing.T) {
	run := demo.Session()
	s := newScreen(t, run, Options{Control: run}, 160, 45)
	run.Until(20_000)
	s.tick()
	s.mustShow("the last 5.", "mean ", "p50 ")
}

// TestEmptySession: a session without records fills a screen of any size, and shows no number
// that comes from dividing by nothing.
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

// TestNothingRecorded: a lane without spans shows no share, because it is not known to be 0 %.
func TestNothingRecorded(t *testing.T) {
	run := demo.Session()
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

// TestPinLane: the thread that page-locks batches has a lane of its own.
func TestPinLane(t *testing.T) {
	run := demo.Session()
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

// TestWaitsMakeNothingOlder: the timeline and the verdict are renewed as often as their CPU time
// allows. Time spent waiting, for a core or anything else, does not count.
func TestWaitsMakeNothingOlder(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("what a thread computed is not known here")
	}
	run := demo.Session()
	s := &screen{New(Options{Source: waiting{run}, Control: run}), t, run}
	s.send(tea.WindowSizeMsg{Width: 120, Height: 50})
	s.tick()
	if s.session.spansPause >= 100*wait || s.session.analysis.pause >= 100*wait {
		t.Errorf("the timeline waits %v, the verdict %v", s.session.spansPause, s.session.analysis.pause)
	}
}

// TestAnalysisPanics: a panic of the analysis is passed on to the screen's own goroutine, where the
// terminal is restored before the panic is printed.
func TestAnalysisPanics(t *testing.T) {
	run := demo.Session()
	s := newScreen(t, run, Options{}, 120, 50)
	s.o.Source = broken{run}
	defer func() {
		if p := fmt.Sprint(recover()); !strings.HasPrefix(p, "the analysis broke\n") || !strings.Contains(p, "panel.Analyse") {
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
