package tui

import (
	"regexp"
	"strings"
	"testing"
	"unicode"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
	"dev.gpustall/tui/internal/demo"
	"dev.gpustall/tui/panel"
)

// TestEverySizeAndKey draws every size while every key is pressed: nothing may
// panic, and a frame has exactly the terminal's lines and columns.
func TestEverySizeAndKey(t *testing.T) {
	keys := []string{
		"1", "left", "shift+left", "up", "down", "z", "Z", "2", "right", "down", "enter", "u", "3", "4", "5", "up", "a", "A",
		"f", "f", "space", "[", "{", "]", "}", "g", "G", "t", "+", "-", "p", "p", "e", "n", "down", "esc", "?", "down", "esc", "/", "w", "enter", "esc", "q", "n", "tab", "shift+tab",
	}
	run := demo.Session().Meta(func(m *trace.Meta) { m.Model, m.Device = "残差网络18", "显卡 H100" })
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
		if canvas.Width(l) != w {
			t.Fatalf("%dx%d: line %d has %d columns: %q", w, h, i, canvas.Width(l), l)
		}
		if s.frame.c.Glyphs.ASCII {
			for _, r := range l {
				if r > 0x7e && !strings.ContainsRune("残差网络显卡", r) {
					t.Fatalf("%dx%d: line %d has %q in ASCII mode", w, h, i, r)
				}
			}
		}
	}
}

// TestLabelsAlwaysShow: the labels are shown at every size.
func TestLabelsAlwaysShow(t *testing.T) {
	run := demo.New(nil)
	_ = run.Set([]knob.Setting{{Name: "ceiling", Value: "on"}, {Name: "inject_read", Value: "2ms"}})
	run.Until(3000)
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

// TestFrozenShows: at every size, and with any panel expanded, the screen says that it is frozen.
func TestFrozenShows(t *testing.T) {
	for _, size := range sizes {
		run := demo.Session()
		s := newScreen(t, run, Options{Control: run}, size[0], size[1])
		s.mustHide("FROZEN", "FRZ")
		s.press("5", "f", "space")
		s.mustShow(panel.Pick(size[0] < 100, "FRZ", "FROZEN"))
		s.press("space")
		s.mustHide("FROZEN", "FRZ")
	}
}

// TestSmallPanels: a small screen shows a panel alone while it has the focus, if it has no line for
// it.
func TestSmallPanels(t *testing.T) {
	run := demo.Session()
	s := newScreen(t, run, Options{Control: run}, 60, 16)
	for key, title := range map[string]string{"4": "4 Stall breakdown", "5": "5 Experiments", "6": "6 Device ops", "7": "7 Blame"} {
		s.mustHide(title)
		s.press(key)
		s.mustShow(title)
		s.press("esc")
		s.mustHide(title)
		s.mustShow("samples/s")
	}
}

// TestForeignNames: names from outside (of a model, a device, an op, a setting, or a note) never send
// the terminal a command, at every size and in every panel.
func TestForeignNames(t *testing.T) {
	const evil = "\x1b[2J\x1b]0;title\a\u009b31m\u202e\rhid\n"
	long := strings.Repeat("A", 10_000)
	run := demo.Session().Meta(func(m *trace.Meta) {
		m.ID, m.Model, m.Device, m.Dataset = evil, evil+"model"+long, evil+"device"+long, evil
		m.Host = []knob.Setting{{Name: evil, Value: evil}}
	})
	run.Note("warn", evil+long)
	run.Knob(evil, evil+long)
	run.Gauge(evil, 0, 1)
	run.Ops([]trace.OpTime{{Name: evil + long, Layer: evil, Phase: evil, Variant: evil, Calls: 2, Total: 9e6, Min: 4e6, Max: 5e6}})
	style := regexp.MustCompile(`\x1b\[[0-9;]*m`)
	for _, size := range sizes {
		s := newScreen(t, run, Options{Control: run}, size[0], size[1])
		for _, k := range []string{"1", "2", "3", "4", "5", "f", "f", "n", "esc", "e", "?", "esc"} {
			s.press(k)
			checkFrame(t, s, size[0], size[1])
			frame := style.ReplaceAllString(s.View(), "")
			if i := strings.IndexFunc(frame, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
				t.Fatalf("%v, key %s: %q", size, k, frame[max(0, i-40):min(len(frame), i+40)])
			}
		}
	}
	newScreen(t, run, Options{Control: run}, 120, 36).mustShow("?[2J?]0;ti")
}

// TestDiverged: a loss that became NaN is shown at every size, but not for moments before that.
func TestDiverged(t *testing.T) {
	run := demo.Session()
	run.Diverge(int32(len(run.Snapshot(0, 0).Recent)) + 5)
	run.Advance(run.Now() + 2e9)
	for _, size := range sizes {
		s := newScreen(t, run, Options{Control: run}, size[0], size[1])
		word := "DIVERGED"
		if size[0] < 100 {
			word = "DIV"
		}
		if size[0] < 40 {
			word = "D"
		}
		s.mustShow(word)
	}
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	s.mustShow("loss NaN")
	s.press("g")
	s.mustHide("DIVERGED", "NaN")
	s.press("G")
	s.tick()
	s.mustShow("DIVERGED")
	s = newScreen(t, demo.Session(), Options{}, 120, 36)
	s.mustHide("DIVERGED")
}

// TestExperimentColumns: the table always shows the interval of a comparison and what was changed.
func TestExperimentColumns(t *testing.T) {
	run := demo.Session()
	for _, size := range [][2]int{{80, 24}, {90, 28}, {100, 30}, {119, 30}, {120, 30}, {160, 50}} {
		for _, expand := range []bool{false, true} {
			s := newScreen(t, run, Options{Control: run}, size[0], size[1])
			s.press("5")
			if expand {
				s.press("f")
			}
			s.fixed()
			s.mustShow("vs A", "95% CI", "+39..+49%", "inject_cpu off")
		}
	}
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	s.fixed()
	s.mustShow("samples/s  #2 same") // the gauge is no surer than the table
	s = newScreen(t, run, Options{Control: run}, 200, 50)
	s.fixed()
	s.mustHide("without drift")
	s.session.analysis.Segs[2].VsA.Throughput.Drifted = 1.3
	s.mustShow("#2 same v A without drift")
	s = newScreen(t, run, Options{Control: run}, 80, 24)
	s.press("5", "up")
	s.mustShow("#1 num_workers 2→4, ")
}

// TestNotesWrap: a long note is shown to its end.
func TestNotesWrap(t *testing.T) {
	run := demo.Session()
	run.Note("warn", "a note that begins here and, because what it has to say takes more than one line of a small terminal, ends there")
	s := newScreen(t, run, Options{Control: run}, 80, 24)
	s.press("n")
	s.mustShow("a note that begins", "ends there")
}

// TestSmallScreens: on a small screen help is not cut, help and quit are offered, and a panel can be
// expanded. The smallest screens still show a question.
func TestSmallScreens(t *testing.T) {
	run := demo.Session()
	s := newScreen(t, run, Options{Control: run}, 60, 16)
	s.mustShow("? help  q quit")
	for _, k := range []string{"1", "2", "3", "4", "5"} {
		s.press(k, "f")
		s.mustShow(map[string]string{"1": "Timeline", "2": "Knobs", "3": "Verdict", "4": "Stall breakdown", "5": "95% CI"}[k])
		s.mustHide("rate ")
		s.press("f")
		s.mustShow("rate ")
	}
	s.press("?")
	var seen strings.Builder
	for range 70 {
		seen.WriteString(strings.Join(strings.Fields(strings.ReplaceAll(s.plain(), "│", " ")), " ") + " ")
		s.press("down")
	}
	for _, words := range []string{"the session's log", "start, end", "R read", "? unknown", "staged, requested, confirmed."} {
		if !strings.Contains(seen.String(), words) {
			t.Errorf("the help never shows %q", words)
		}
	}
	if strings.Contains(s.plain(), "~") {
		t.Errorf("the help is cut:\n%s", s.plain())
	}
	s = newScreen(t, run, Options{Control: run}, 30, 8)
	s.press("q")
	s.mustShow("Quit? y or n")
	s.press("n", "A")
	s.mustShow("only a run that")
	s = newScreen(t, run, Options{Control: run}, 40, 12)
	s.press("q")
	s.mustShow("Quit?", "y quit  n stay")
	s = newScreen(t, run, Options{Control: run}, 30, 1)
	s.press("q")
	s.mustShow("Quit? y or n")
}

// TestManyWorkers: many workers scroll, and those that have no row are merged into one.
func TestManyWorkers(t *testing.T) {
	run := demo.New(nil)
	_ = run.Set([]knob.Setting{{Name: "num_workers", Value: "64"}})
	run.Until(3000)
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	s.mustShow("w0 ", "more", "STALL", "compute")
	s.press("1")
	for range 100 {
		s.press("down")
	}
	s.mustShow("w63", "STALL")
	s.mustHide("+")
}

// TestThemeNames: the themes have the names that the command line takes.
func TestThemeNames(t *testing.T) {
	t.Setenv("COLORFGBG", "")
	for i, name := range []string{"default", "light", "colorblind", "mono"} {
		if m := New(Options{Theme: name}); m.frame.theme != i || m.frame.themes[i].Name != name {
			t.Errorf("theme %s is number %d, named %s", name, m.frame.theme, m.frame.c.Theme.Name)
		}
	}
	if m := New(Options{NoColor: true, Theme: "colorblind"}); !m.frame.c.Theme.Mono {
		t.Error("NoColor does not win over the theme")
	}
	t.Setenv("COLORFGBG", "0;15")
	for chosen, want := range map[string]string{"default": "light", "": "light", "colorblind": "colorblind"} {
		if m := New(Options{Theme: chosen}); m.frame.c.Theme.Name != want {
			t.Errorf("on a light background %q is theme %s", chosen, m.frame.c.Theme.Name)
		}
	}
	t.Setenv("COLORFGBG", "")
	for want, chosen := range map[string]int{"light": 0, "colorblind": 2} {
		m := New(Options{})
		for range chosen {
			m.frame.nextTheme()
		}
		m.Update(backgroundMsg(true))
		if got := m.frame.c.Theme.Name; got != want || !m.frame.asks {
			t.Errorf("the terminal says light after %d other themes were chosen: %s, asks %v", chosen, got, m.frame.asks)
		}
	}
}

// TestStarvedIsNotOK: a cpu device that waits for a core for much of the time is never called good,
// however busy it is. Its utilisation, a good value, is not called bad: the waits for a core are.
func TestStarvedIsNotOK(t *testing.T) {
	for _, c := range []struct {
		starved float64 // %
		mark    string
	}{{0, "ok"}, {10, "ok"}, {30, "!"}, {80, "!!"}} {
		run := demo.Fed(nil)
		for at := range int64(12) {
			run.Gauge(trace.GaugeStarved, at*1e9, c.starved)
		}
		run.Advance(11e9)
		for _, size := range [][2]int{{80, 24}, {120, 36}, {200, 50}} {
			s := newScreen(t, run, Options{Control: run, ASCII: true}, size[0], size[1])
			frame := s.plain()
			util := regexp.MustCompile(`(waits for core )?[0-9.]+% (ok|!!?)`).FindAllString(frame, -1)
			if len(util) == 0 || !strings.HasSuffix(util[0], " "+c.mark) || strings.HasPrefix(util[0], "waits") != (c.mark != "ok") {
				t.Errorf("%v, %v %% without a core: %q:\n%s", size, c.starved, util, frame)
			}
			if says := strings.Contains(frame, "waits for core "); says != (c.starved >= 5) {
				t.Errorf("%v, %v %% without a core: said %v:\n%s", size, c.starved, says, frame)
			}
		}
	}
}
