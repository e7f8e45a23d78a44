package tui

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/internal/demo"
	"dev.gpustall/tui/panel"
)

// TestPanelKeys: every panel gets the focus by its own key and by tab. No key of a panel means
// something else everywhere, and every key in the footer does something.
func TestPanelKeys(t *testing.T) {
	run := demo.Session()
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	seen := map[string]string{}
	s.press("1")
	for i := range s.focus.panels {
		p := s.focus.panels[i]
		if p.Describe().Key == "" {
			continue
		}
		if other, ok := seen[p.Describe().Key]; ok {
			t.Errorf("%s has the key of %s", p.Describe().Name, other)
		}
		seen[p.Describe().Key] = p.Describe().Name
		if s.focus.now != p {
			t.Errorf("tab goes to %s, want %s", s.focus.now.Describe().Name, p.Describe().Name)
		}
		s.press("tab")
	}
	if len(seen) < 6 || s.focus.now.Describe().Key != "1" {
		t.Errorf("%d panels have keys; tab ends at %s", len(seen), s.focus.now.Describe().Name)
	}
	for i := range s.focus.panels {
		p := s.focus.panels[i]
		if p.Describe().Key != "" {
			if s.press(p.Describe().Key); s.focus.now != p {
				t.Errorf("%s focuses %s, want %s", p.Describe().Key, s.focus.now.Describe().Name, p.Describe().Name)
			}
		}
		for _, b := range p.Describe().Keys {
			for _, key := range b.Names() {
				global := panel.Pressed(s.globals, key) != nil
				if b.Do != nil && global {
					t.Errorf("%s of %s means something else everywhere", key, p.Describe().Name)
				}
				if b.Do == nil && !global {
					t.Errorf("%s of %s does nothing", key, p.Describe().Name)
				}
			}
		}
	}
}

// TestLayoutTiles: the panels cover each cell of the body once, whichever of them has the focus.
func TestLayoutTiles(t *testing.T) {
	run := demo.Session()
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	for _, size := range [][2]int{{80, 24}, {119, 29}, {120, 30}, {121, 47}, {160, 42}, {201, 55}} {
		s.send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		for i := range s.focus.panels {
			if s.focus.panels[i].Describe().Key == "" {
				continue
			}
			s.press(s.focus.panels[i].Describe().Key)
			covered := make([]int, size[0]*size[1])
			for _, r := range s.arrange().panels {
				for y := r.Y; y < r.Y+r.H; y++ {
					for x := r.X; x < r.X+r.W; x++ {
						covered[y*size[0]+x]++
					}
				}
			}
			for at, n := range covered {
				body := at >= size[0] && at < len(covered)-size[0]
				if body && n != 1 || !body && n != 0 {
					t.Fatalf("%v, %s in focus: column %d of row %d is drawn by %d panels", size, s.focus.now.Describe().Name, at%size[0], at/size[0], n)
				}
			}
			if s.layout.panels[i].Empty() {
				t.Errorf("%v: %s has the focus and is not shown", size, s.focus.now.Describe().Name)
			}
		}
	}
}

// TestLongVerdict: with a long verdict the compact screen still shows the most important lanes, some
// knobs, and the line about an experiment.
func TestLongVerdict(t *testing.T) {
	run := demo.Session()
	s := newScreen(t, run, Options{Control: run}, 80, 24)
	told := &s.session.analysis.Told
	told.Verdict.Text = told.Verdict.Class + ": " + strings.Repeat("much to say, ", 60) + "and no end"
	told.Verdict.Basis = "; 23 steps [injected]" // the title and the header say this
	told.Verdict.Text += told.Verdict.Basis
	told.Asked = "A/B test: 3 pairs so far."
	s.press("1")
	s.mustHide("[injected]", "and no end")
	s.mustShow("compute", "STALL", "num_workers", "prefetch_factor", "pin_memory", "much to ~", " ~ 3 f shows all", "A/B test: 3 pairs so far.")
}

// TestVerdictInThreeLines: at 80x24 the verdict, what to do and why have a line each, for each verdict of
// the recorded sessions. Cut lines say so, and the whole panel has all of the text.
func TestVerdictInThreeLines(t *testing.T) {
	type said struct {
		Class  string `json:"verdict"`
		Text   string `json:"verdict_text"`
		Advice string `json:"advice"`
	}
	of := []said{{"input-bound", "input-bound: the device waits for data 43 % of the time; 23 steps", ""}}
	files, _ := filepath.Glob("../testdata/sessions/golden/*.json")
	for _, file := range files {
		var one said
		if b, err := os.ReadFile(file); err != nil || json.Unmarshal(b, &one) != nil || one.Text == "" {
			continue // no summary
		}
		of = append(of, one)
	}
	if len(of) < 9 {
		t.Fatalf("only %d verdicts in %v", len(of), files)
	}
	run := demo.Session()
	s := newScreen(t, run, Options{Control: run}, 80, 24)
	s.session.analysis.busy = true // no analysis of the session's own takes the place of what is shown
	whole := func(text string) bool {
		frame := strings.Join(strings.Fields(strings.ReplaceAll(s.plain(), "│", " ")), " ")
		return strings.Contains(frame, strings.Join(strings.Fields(text), " "))
	}
	cuts := 0
	for _, one := range of {
		for more := range 10 {
			why := "reads wait" + strings.Repeat("; and this", more) + "; to the end"
			_, text, _ := strings.Cut(one.Text, ": ")
			text, _, _ = strings.Cut(text, " [")
			s.session.analysis.Told = advice.Advice{
				Verdict:  advice.Verdict{Class: one.Class, Text: one.Class + ": " + text, Group: trace.GroupData},
				Findings: []advice.Finding{{Remedy: "try num_workers 2 -> 8", Evidence: why}},
			}
			s.press("1")
			if rows := strings.Split(s.plain(), "\n"); len(rows) < 6 || !strings.Contains(rows[5], "╰") {
				t.Fatalf("not three lines:\n%s", s.plain())
			}
			s.mustShow(strings.ToUpper(one.Class), "Next try num_workers 2 -> 8", "Why  reads wait")
			if whole(text) && whole(why) {
				continue
			}
			cuts++
			s.mustShow(" ~ 3 f shows all")
			if s.press("3", "f"); !whole(text) || !whole(why) {
				t.Fatalf("%q is not shown:\n%s", why, s.plain())
			}
			s.press("f")
		}
	}
	if cuts == 0 {
		t.Error("nothing was cut")
	}
}

// TestBesideVerdict: expanded, the panel shows the texts beside the verdict, each in full or not at
// all.
func TestBesideVerdict(t *testing.T) {
	for _, c := range []struct {
		h    int
		long bool
	}{{36, true}, {24, false}} {
		run := demo.Session()
		s := newScreen(t, run, Options{Control: run}, 100, c.h)
		s.session.analysis.Beside = []string{"To know: epoch 1 waited for data in 80 % of its time.", strings.Repeat("To know: much. ", 60) + "The end."}
		s.press("3", "f")
		frame := s.plain()
		if !strings.Contains(frame, "epoch 1 waited for data in 80 % of its time.") || strings.Contains(frame, "The end.") != c.long || strings.Contains(frame, "much.") != c.long {
			t.Errorf("%d rows, long text %v:\n%s", c.h, c.long, frame)
		}
	}
}
