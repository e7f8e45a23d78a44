package tui

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/internal/demo"
)

// TestKnobStates walks a change through staged, applied and confirmed.
func TestKnobStates(t *testing.T) {
	run := session()
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	s.press("right")
	s.mustShow("‹4› →6 staged", "1 staged  enter apply")
	if got := run.Requested()[0].Value; got != "4" {
		t.Errorf("staging already asked for %s", got)
	}
	s.press("enter")
	if got := run.Requested()[0].Value; got != "6" {
		t.Errorf("enter asked for %s, want 6", got)
	}
	s.tick()
	s.mustShow("‹4› →6 applied") // the engine accepted, the trace does not have it yet
	s.mustHide("‹6›")
	advance(run, 9600)
	s.tick()
	s.mustShow("‹6› ✓ confirmed", "cfg #3")
	advance(run, 20_000)
	s.tick()
	s.mustHide("confirmed", "cost 0 ms")
	s.mustShow("#3 cost ")
	s.press("u")
	if got := run.Requested()[0].Value; got != "4" {
		t.Errorf("undo asked for %s, want 4", got)
	}
	s.press("u")
	s.mustShow("nothing to undo")
}

// TestRefusedChange: the error shows and what was staged stays.
func TestRefusedChange(t *testing.T) {
	run := session()
	run.Fail(errors.New("prefetch_factor needs workers"))
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	s.press("down", "right", "enter")
	s.mustShow("prefetch_factor needs workers", "→3 staged")
	for range 200 {
		s.tick()
	}
	s.mustShow("prefetch_factor needs workers") // until a key
	s.press("down")
	s.mustHide("prefetch_factor needs workers")
	s.press("esc")
	s.mustHide("→3")
}

// TestPanicsInCommands: a panic of the engine or the report becomes a message.
func TestPanicsInCommands(t *testing.T) {
	run := session()
	s := newScreen(t, run, Options{Control: panicking{run}, Export: func() (string, error) { panic("no paper") }}, 120, 36)
	s.press("right", "enter")
	s.mustShow("apply the knobs: panic: out of order")
	s.press("e")
	s.mustShow("export: write the report: panic: no paper")
}

type panicking struct{ *demo.Run }

func (panicking) Set([]trace.Knob) error { panic("out of order") }

func TestStepping(t *testing.T) {
	workers := &trace.KnobSpec{Type: "int", Max: 64, Values: []string{"0", "1", "2", "4", "8", "16", "32", "64"}}
	prefetch := &trace.KnobSpec{Type: "int", Min: 1, Max: 16}
	pin := &trace.KnobSpec{Type: "bool"}
	precision := &trace.KnobSpec{Type: "enum", Values: []string{"fp32", "tf32", "bf16"}}
	read := &trace.KnobSpec{Type: "duration"}
	for _, c := range []struct {
		spec    *trace.KnobSpec
		from    string
		d, size int
		want    string
	}{
		{workers, "2", 1, 1, "4"}, {workers, "2", -1, 1, "1"}, {workers, "3", 1, 1, "4"}, {workers, "3", -1, 1, "2"},
		{workers, "64", 1, 1, "64"}, {workers, "0", -1, 1, "0"}, {workers, "0", 1, 4, "8"}, {workers, "1", 1, 16, "64"},
		{prefetch, "2", 1, 1, "3"}, {prefetch, "1", -1, 1, "1"}, {prefetch, "2", 1, 4, "6"}, {prefetch, "2", 1, 16, "16"},
		{pin, "off", 1, 1, "on"}, {pin, "on", -1, 1, "off"}, {pin, "true", -1, 1, "false"},
		{precision, "fp32", 1, 1, "tf32"}, {precision, "bf16", 1, 1, "bf16"}, {precision, "?", 1, 1, "fp32"},
		{read, "0s", 1, 1, "1ms"}, {read, "5ms", -1, 4, "1ms"}, {read, "5ms", -1, 16, "off"}, {read, "off", 1, 1, "1ms"},
	} {
		if got := stepped(c.spec, c.from, c.d, c.size); got != c.want {
			t.Errorf("%s %s stepped %d x %d = %s, want %s", c.spec.Type, c.from, c.d, c.size, got, c.want)
		}
	}
}

// TestTyping enters values as text.
func TestTyping(t *testing.T) {
	run := session()
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	s.press("enter", "1", "2", "backspace", "0", "enter")
	s.mustShow("→10 staged")
	s.press("esc", "enter", "9", "9", "enter")
	s.mustShow("num_workers goes from 0 to 64, not 99")
	s.press("down", "enter", "x", "enter")
	s.mustShow(`"x" is not a whole number`)
	for range 9 {
		s.press("down")
	}
	s.press("enter", "5", "enter")
	if got := s.kn.staged["inject_read"]; got != "5ms" {
		t.Errorf("inject_read typed as 5 is %q, want 5ms", got)
	}
	s.press("down", "i", "2", "u", "s", "enter", "enter")
	if got := fmt.Sprint(run.Requested()); !strings.Contains(got, "{inject_read 5ms} {inject_cpu 2µs}") {
		t.Errorf("asked for %s", got)
	}
}

// TestAdvice: enter in the verdict panel stages what it suggests.
func TestAdvice(t *testing.T) {
	run := session()
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	s.press("3", "enter")
	if v := s.an.verdict; v.Knob == "" || s.kn.staged[v.Knob] != v.Value {
		t.Errorf("staged %v, the verdict says %s %s", s.kn.staged, v.Knob, v.Value)
	}
}

func TestQuit(t *testing.T) {
	run := session()
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	if s.press("q"); s.quit {
		t.Error("q quit without asking while training runs")
	}
	s.mustShow("Quit?")
	s.press("n")
	s.mustHide("Quit?")
	if s.press("q", "y"); !s.quit {
		t.Error("q and y do not quit")
	}
	run.End("finished")
	s = newScreen(t, run, Options{Control: run}, 120, 36)
	if s.press("q"); !s.quit {
		t.Error("q asks although the run has ended")
	}
}

// TestReplay: time moves by keys, knobs do not.
func TestReplay(t *testing.T) {
	run := session()
	run.End("finished")
	s := newScreen(t, run, Options{Replay: true}, 120, 36)
	s.mustShow("REPLAY", "FINISHED", "at 00:00:09 of 00:00:09", "read-only")
	s.press("2", "right")
	s.mustShow("a replay's knobs are read-only")
	s.press("g")
	s.mustShow("at 00:00:00", "waiting for the first step")
	s.press("space")
	s.mustShow("PLAYING")
	t0 := time.Unix(100, 0)
	s.advance(t0)
	for i := 1; i <= 40; i++ {
		s.advance(t0.Add(time.Duration(i) * 100 * time.Millisecond))
	}
	if s.at != 4e9 {
		t.Errorf("after 4 s of playing it shows %d ns", s.at)
	}
	s.mustShow("PLAYING 00:00:04", "cfg #0")
	s.press("G")
	s.mustShow("cfg #2")
	s.press("space") // from the end it begins again
	if s.at != 0 || !s.play {
		t.Errorf("space at the end: at %d, playing %v", s.at, s.play)
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
	s.mustShow("FROZEN -500 ms")
	if got := s.plain(); strings.Count(got, "\n") != strings.Count(frame, "\n") || !sameLine(got, frame, "STALL") {
		t.Errorf("the frozen timeline moved:\n%s\n%s", frame, got)
	}
	s.press("[")
	s.mustShow("FROZEN -565 ms")
	s.press("]", "]")
	if s.frozen && s.at < s.live.Now-440e6 {
		t.Errorf("] did not move forward: at %d of %d", s.at, s.live.Now)
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
	for range s.tl.cols {
		s.press("left")
		seen = append(seen, strings.Join(s.tl.lines, " "))
	}
	all := strings.Join(seen, "\n")
	for _, want := range []string{"starved ", " transform took ", "computes batch ", "took ", "w1 transform #"} {
		if !strings.Contains(all, want) {
			t.Errorf("no moment is explained with %q:\n%s", want, all)
		}
	}
	inView := func(after string) {
		if from := s.tl.first * s.tl.bin(); s.tl.cursor < from || s.tl.cursor >= s.tl.edge {
			t.Errorf("after %s the cursor is at %d, the window from %d to %d", after, s.tl.cursor, from, s.tl.edge)
		}
	}
	for _, key := range []string{"{", "[", "z", "z", "}", "Z"} {
		s.press(key)
		inView(key)
	}
	s.press("esc")
	if s.tl.cursor >= 0 {
		t.Error("esc keeps the cursor")
	}
}

// TestLateHandOver: a batch that was collated long before the step loop had it is
// not explained by its collation alone, and a window without a step is no window
// without stalls.
func TestLateHandOver(t *testing.T) {
	const ms = int64(1e6)
	tl := timeline{cursor: -1, cols: 80, zoom: 3, edge: 40 * ms, known: 40 * ms, spans: []trace.Span{
		{Start: 1 * ms, End: 1*ms + 900, Batch: 7, Kind: trace.KindCollate, Track: trace.Worker(0)},
		{Start: 1 * ms, End: 30 * ms, Batch: 7, Kind: trace.KindStall, Track: trace.TrackStall, Arg: uint32(trace.CauseCollate)},
	}}
	tl.explain(&Model{})
	if got := strings.Join(tl.lines, " "); !strings.Contains(got, "then the hand-over") {
		t.Errorf("a late hand-over reads %q", got)
	}
	tl = timeline{cursor: -1, cols: 80, zoom: 3, first: 100, edge: 1e12, spans: []trace.Span{{Start: 1e12 - 5, End: 1e12, Track: trace.Worker(0)}}}
	tl.explain(&Model{})
	if got := strings.Join(tl.lines, " "); !strings.Contains(got, "no step has ended") {
		t.Errorf("an open window reads %q", got)
	}
	tl.explain(&Model{paused: true})
	if got := strings.Join(tl.lines, " "); !strings.Contains(got, "paused") {
		t.Errorf("a pause reads %q", got)
	}
}

// TestFilter keeps lanes by name.
func TestFilter(t *testing.T) {
	run := session()
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	s.press("/", "w", "1", "enter")
	if len(s.tl.lanes) != 1 || s.tl.lanes[0].label != "w1" {
		t.Errorf("the filter w1 leaves %v", s.tl.lanes)
	}
	s.press("/", "z", "enter")
	s.mustShow("no lane matches /z")
	s.press("esc")
	if len(s.tl.lanes) != 9 {
		t.Errorf("without a filter there are %d lanes, want 9", len(s.tl.lanes))
	}
}

// TestBaseline moves A.
func TestBaseline(t *testing.T) {
	run := session()
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	s.press("5", "up", "a")
	if s.an.baseline != 1 {
		t.Errorf("the baseline is #%d, want 1", s.an.baseline)
	}
	s.mustShow("A#1")
	if !s.an.segs[0].VsA.OK || s.an.segs[0].VsA.Ratio > 1 {
		t.Errorf("#0 against A #1: %+v", s.an.segs[0].VsA)
	}
}

// TestOldTick: after a change of rate only the new tick goes on.
func TestOldTick(t *testing.T) {
	run := session()
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	gen := s.ticks
	s.press("+")
	if s.fps != 15 {
		t.Errorf("+ gives %d frames a second, want 15", s.fps)
	}
	if _, cmd := s.Update(tickMsg{gen: gen}); cmd != nil {
		t.Error("the old tick goes on beside the new one")
	}
	for range 10 {
		s.press("-")
	}
	if s.fps != 1 {
		t.Errorf("- ends at %d frames a second, want 1", s.fps)
	}
}

// TestEverySizeAndKey draws every size while every key is pressed: nothing may
// panic, and a frame has exactly the terminal's lines and columns.
func TestEverySizeAndKey(t *testing.T) {
	keys := []string{
		"1", "left", "shift+left", "up", "down", "z", "Z", "2", "right", "down", "enter", "u", "3", "4", "5", "up", "a", "A",
		"f", "f", "space", "[", "{", "]", "}", "g", "G", "t", "+", "-", "p", "p", "e", "n", "down", "esc", "?", "down", "esc", "/", "w", "enter", "esc", "q", "n", "tab", "shift+tab",
	}
	run := session().Meta(func(m *trace.Meta) { m.Model, m.Device = "残差网络18", "显卡 H100" })
	for _, o := range []Options{{Control: run}, {Replay: true, ASCII: true}} {
		s := newScreen(t, run, o, 1, 1)
		for w := 0; w <= 210; w += 7 {
			for h := 0; h <= 56; h += 5 {
				s.send(tea.WindowSizeMsg{Width: w, Height: h})
				s.press(keys[(w*8+h)%len(keys)], keys[(w+h)%len(keys)])
				checkFrame(t, s, w, h)
			}
		}
		for _, size := range sizes {
			s.send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			for _, k := range keys {
				s.press(k)
				checkFrame(t, s, size[0], size[1])
			}
		}
	}
}

func checkFrame(t *testing.T, s *screen, w, h int) {
	t.Helper()
	if w == 0 || h == 0 {
		s.View()
		return
	}
	lines := strings.Split(s.plain(), "\n")
	if len(lines) != h {
		t.Fatalf("%dx%d: %d lines", w, h, len(lines))
	}
	for i, l := range lines {
		if textWidth(l) != w {
			t.Fatalf("%dx%d: line %d has %d columns: %q", w, h, i, textWidth(l), l)
		}
		if s.cs.ascii {
			for _, r := range l {
				if r > 0x7e && !strings.ContainsRune("残差网络显卡", r) {
					t.Fatalf("%dx%d: line %d has %q in ASCII mode", w, h, i, r)
				}
			}
		}
	}
}

// TestLabelsAlwaysShow at every size.
func TestLabelsAlwaysShow(t *testing.T) {
	run := demo.New(nil)
	_ = run.Set([]trace.Knob{{Name: "ceiling", Value: "on"}, {Name: "inject_read", Value: "2ms"}})
	advance(run, 3000)
	for _, size := range sizes {
		for _, replay := range []bool{false, true} {
			s := newScreen(t, run, Options{Control: run, Replay: replay}, size[0], size[1])
			words := []string{"EMU", "SYN", "INJ", "CEIL"}
			if replay {
				words = append(words, "RPL")
			}
			frame := s.plain()
			for _, w := range words {
				if !strings.Contains(strings.ReplaceAll(frame, "REPLAY", "RPL"), w) {
					t.Errorf("%v: the label %s is missing:\n%s", size, w, frame)
				}
			}
		}
	}
}

// TestQueueOfWorkers: many workers scroll, the rest is one merged row.
func TestManyWorkers(t *testing.T) {
	run := demo.New(nil)
	_ = run.Set([]trace.Knob{{Name: "num_workers", Value: "64"}})
	advance(run, 3000)
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	s.mustShow("w0 ", "more", "STALL", "compute")
	s.press("1")
	for range 100 {
		s.press("down")
	}
	s.mustShow("w63", "STALL")
	s.mustHide("+")
}

// TestThemeNames are those that the command line takes.
func TestThemeNames(t *testing.T) {
	for i, name := range []string{"default", "colorblind", "mono"} {
		if m := New(Options{Theme: name}); m.theme != i || m.themes[i].name != name {
			t.Errorf("theme %s is number %d, named %s", name, m.theme, m.themes[m.theme].name)
		}
	}
	if m := New(Options{NoColor: true, Theme: "colorblind"}); !m.themes[m.theme].mono {
		t.Error("NoColor does not win over the theme")
	}
}
