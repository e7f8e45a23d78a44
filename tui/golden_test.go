package tui

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/google/go-cmp/cmp"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
	"dev.gpustall/tui/internal/demo"
	"dev.gpustall/tui/panel"
)

var update = flag.Bool("update", false, "write the golden frames")

// sizes are the sizes of the golden frames: one for each layout.
var sizes = [][2]int{{200, 50}, {120, 36}, {80, 24}, {60, 16}, {30, 8}}

// screen is a model without a terminal: messages go in, commands run at once.
type screen struct {
	*Model
	t   testing.TB
	run *demo.Run
}

func newScreen(t testing.TB, run *demo.Run, o Options, w, h int) *screen {
	t.Helper()
	o.Source, o.Baseline = run, run.SetBaseline
	s := &screen{New(o), t, run}
	s.send(tea.WindowSizeMsg{Width: w, Height: h})
	s.tick()
	return s
}

// send delivers a message and then what its commands return.
func (s *screen) send(msg tea.Msg) {
	_, cmd := s.Update(msg)
	s.follow(cmd)
}

func (s *screen) follow(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case analysedMsg, brokenMsg, setDone, pauseDone, exportDone, beginDone, panel.Risk:
		s.send(msg)
	case tea.BatchMsg:
		for _, c := range msg {
			s.follow(c)
		}
	}
}

// tick refreshes and analyses, as a second of ticks would.
func (s *screen) tick() {
	s.session.spansAt = time.Time{}
	s.session.analysis.started, s.session.analysis.busy = s.session.analysis.started.AddDate(-1, 0, 0), false
	s.follow(s.advance(s.session.analysis.started.AddDate(1, 0, 0)))
	s.frame.dirty = true
}

// press sends keys by name.
func (s *screen) press(keys ...string) {
	for _, k := range keys {
		if k == "+" || k == "-" { // their command is the next tick, which would wait
			s.Update(keyMsg(k))
			continue
		}
		s.send(keyMsg(k))
	}
}

func keyMsg(k string) tea.KeyMsg {
	for t, name := range map[tea.KeyType]string{
		tea.KeyEnter: "enter", tea.KeyEsc: "esc", tea.KeyTab: "tab", tea.KeyShiftTab: "shift+tab",
		tea.KeyUp: "up", tea.KeyDown: "down", tea.KeyLeft: "left", tea.KeyRight: "right",
		tea.KeyShiftLeft: "shift+left", tea.KeyShiftRight: "shift+right", tea.KeyCtrlRight: "ctrl+right",
		tea.KeyBackspace: "backspace", tea.KeyCtrlC: "ctrl+c", tea.KeyCtrlZ: "ctrl+z",
	} {
		if k == name {
			return tea.KeyMsg{Type: t}
		}
	}
	if k == "space" {
		return tea.KeyMsg{Type: tea.KeySpace, Runes: []rune{' '}}
	}
	return tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(k)}
}

// plain returns the frame without its colours, for tests that look for words.
func (s *screen) plain() string {
	s.frame.dirty = true
	s.View()
	look := s.frame.c.Theme
	defer func() { s.frame.c.Theme = look }()
	s.frame.c.Theme = &canvas.Theme{}
	return s.frame.c.Frame()
}

// box returns the text of a panel without its border, a line for each row.
func (s *screen) box(name string) string {
	s.frame.dirty = true
	s.View()
	var b strings.Builder
	r := s.layout.panels[slices.Index(s.focus.panels, s.focus.named(name))].Inner()
	for y := r.Y; y < r.Y+r.H; y++ {
		for x := r.X; x < r.X+r.W; x++ {
			if ch, _ := s.frame.c.At(x, y); ch != 0 {
				b.WriteRune(ch)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (s *screen) mustShow(words ...string) {
	s.t.Helper()
	frame := s.plain()
	for _, w := range words {
		if !strings.Contains(frame, w) {
			s.t.Errorf("the screen does not show %q:\n%s", w, frame)
		}
	}
}

func (s *screen) mustHide(words ...string) {
	s.t.Helper()
	frame := s.plain()
	for _, w := range words {
		if strings.Contains(frame, w) {
			s.t.Errorf("the screen shows %q:\n%s", w, frame)
		}
	}
}

// fixed draws the screen with a made-up verdict and comparisons, because the goldens do not test
// the words and statistics of the analysis.
func (s *screen) fixed() string {
	if s.session.analysis.Told.Verdict.Class != advice.NotEnoughSteps {
		s.session.analysis.Told = advice.Advice{Verdict: advice.Verdict{
			Class: "input-bound", Group: trace.GroupData, Dominant: trace.CauseTransform, Share: 0.43,
			Text: "input-bound: the device waits for data 43 % of the time, most of it for transforming (38 % of the time); 23 steps",
		}, Findings: []advice.Finding{{
			Knob: "num_workers", From: "4", Value: "8", Remedy: "try num_workers 4 -> 8", Evidence: "a batch takes 198 ms of worker time and 26.1 ms on the device",
			Predicted: trace.Prediction{Base: 2761, Rate: 3500, Lo: 3370, Hi: 3620},
		}}}
		s.session.analysis.Foresight = panel.Foresight{}
		for _, p := range []struct {
			named, value string
			lo, hi       float64
		}{{"num_workers", "2", 0.46, 0.52}, {"num_workers", "8", 1.22, 1.31}, {"pin_memory", "on", 0.99, 1.03}, {"prefetch_factor", "4", 1.02, 1.06}} {
			s.session.analysis.Predicted = append(s.session.analysis.Predicted, predict.Prediction{
				Changes:    []knob.Setting{{Name: p.named, Value: p.value}},
				Prediction: trace.Prediction{Base: 1, Rate: (p.lo + p.hi) / 2, Lo: p.lo, Hi: p.hi},
			})
		}
	} else {
		s.session.analysis.Told.Verdict.Text = "not enough steps: 0 of 1 with these settings are steady, a verdict needs 10"
	}
	for i := range s.session.analysis.Segs {
		if c := &s.session.analysis.Segs[i].VsA.Throughput; c.Ratio > 0 {
			*c = stats.Change{Answer: stats.Different, Ratio: 1.437, Lo: 1.386, Hi: 1.49}
			if i == 2 {
				*c = stats.Change{Answer: stats.Same, Ratio: 0.99, Lo: 0.98, Hi: 1.01}
			}
		}
	}
	for name, e := range s.session.analysis.Effects {
		if e.Ratio > 0 {
			s.session.analysis.Effects[name] = panel.Effect{Change: stats.Change{Answer: stats.Different, Ratio: 1.437}, Says: "+44 % (+39 to +49 %)", Of: e.Of}
		}
	}
	s.panels.verdict.Loosen() // the text is another one
	s.frame.dirty = true
	return s.View()
}

func golden(t *testing.T, name string, s *screen) {
	t.Helper()
	got := s.fixed()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got+"\n", "\n")); diff != "" {
		t.Errorf("%s differs (-want +got); go test ./tui -update writes it anew:\n%s", path, diff)
	}
}

func TestFrames(t *testing.T) {
	for _, size := range sizes {
		for _, look := range []string{"colour", "mono", "ascii"} {
			name := fmt.Sprintf("%dx%d-%s", size[0], size[1], look)
			t.Run(name, func(t *testing.T) {
				run := demo.Session()
				s := newScreen(t, run, Options{Control: run, NoColor: look != "colour", ASCII: look == "ascii"}, size[0], size[1])
				golden(t, name, s)
			})
		}
	}
}

// TestStates has one frame for each state that looks different.
func TestStates(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(t *testing.T) *screen
	}{
		{"start", func(t *testing.T) *screen {
			run := demo.New(nil)
			return newScreen(t, run, Options{Control: run}, 120, 36)
		}},
		{"staged", func(t *testing.T) *screen {
			run := demo.Session()
			s := newScreen(t, run, Options{Control: run}, 120, 36)
			s.press("right", "down", "down", "down", "left")
			return s
		}},
		{"error", func(t *testing.T) *screen {
			run := demo.Session()
			run.Fail(errors.New("set num_workers: 6 workers need 6 file handles more than the limit of 1024; raise it with ulimit -n"))
			s := newScreen(t, run, Options{Control: run}, 120, 36)
			s.press("right", "enter")
			return s
		}},
		{"help", func(t *testing.T) *screen {
			run := demo.Session()
			s := newScreen(t, run, Options{Control: run}, 120, 36)
			s.press("?")
			return s
		}},
		{"frozen", func(t *testing.T) *screen {
			run := demo.Session()
			s := newScreen(t, run, Options{Control: run}, 120, 36)
			s.press("space")
			run.Until(10_000)
			s.press("1", "shift+left", "left")
			s.msg = message{}
			return s
		}},
		{"paused", func(t *testing.T) *screen {
			run := demo.Session()
			s := newScreen(t, run, Options{Control: run}, 120, 36)
			s.press("p")
			run.Until(9300)
			s.tick()
			return s
		}},
		{"ended", func(t *testing.T) *screen {
			run := demo.Session()
			run.End("finished")
			return newScreen(t, run, Options{Control: run}, 120, 36)
		}},
		{"replay", func(t *testing.T) *screen {
			run := demo.Session()
			run.End("finished")
			s := newScreen(t, run, Options{Replay: true}, 120, 36)
			s.press("[", "[")
			return s
		}},
		{"labels", func(t *testing.T) *screen {
			run := demo.New(nil)
			run.Drop(1234)
			run.Until(2000)
			_ = run.Set([]knob.Setting{{Name: "ceiling", Value: "on"}, {Name: "inject_read", Value: "2ms"}})
			run.Until(3500)
			return newScreen(t, run, Options{Control: run}, 120, 36)
		}},
		{"expanded", func(t *testing.T) *screen {
			run := demo.Session()
			s := newScreen(t, run, Options{Control: run}, 120, 36)
			s.press("1", "f")
			return s
		}},
		{"quit", func(t *testing.T) *screen {
			run := demo.Session()
			s := newScreen(t, run, Options{Control: run}, 80, 24)
			s.press("q")
			return s
		}},
	} {
		t.Run(c.name, func(t *testing.T) { golden(t, "state-"+c.name, c.make(t)) })
	}
}
