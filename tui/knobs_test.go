package tui

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/internal/demo"
	"dev.gpustall/tui/panel"
)

// TestOneRowOfKnobs: where a tall verdict leaves one row for knobs, it shows the selected knob.
func TestOneRowOfKnobs(t *testing.T) {
	run := demo.Session()
	s := newScreen(t, run, Options{Control: run}, 80, 24)
	s.session.analysis.Told.Verdict.Text = strings.Repeat("input-bound: the device waits ", 20)
	s.mustShow("▸ num_workers")
}

// TestKnobStates walks a change through staged, requested and confirmed.
func TestKnobStates(t *testing.T) {
	run := demo.Session()
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
	s.mustShow("‹4› →6 requested") // the engine accepted the change, but the trace does not have it yet
	s.mustHide("‹6›")
	run.Until(9600)
	s.tick()
	s.mustShow("‹6› ✓ confirmed", "cfg #3")
	run.Until(20_000)
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

// TestKnobsEnd: a key at the end of a knob's range says so.
func TestKnobsEnd(t *testing.T) {
	run := demo.Session()
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	s.press("shift+left")
	s.mustHide("nothing beyond")
	s.press("left")
	s.mustShow("num_workers takes 0 to 64, and nothing beyond", "1 staged")
}

// TestChangeRefusedLater: the run accepted a change and then could not apply it. The row shows the
// old value again, and the same value can be asked for again.
func TestChangeRefusedLater(t *testing.T) {
	run := demo.Session()
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	s.press("right", "enter")
	s.tick()
	s.mustShow("‹4› →6 requested")
	run.Withdraw("num_workers", "4")
	s.tick()
	s.mustShow("‹4›")
	s.mustHide("requested", "confirmed")
	s.press("right")
	s.mustShow("‹4› →6 staged")
}

// TestChangeTheRunDidNotComeTo: after the end of a run nothing is staged or requested any more.
func TestChangeTheRunDidNotComeTo(t *testing.T) {
	run := demo.Session()
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	s.press("right", "enter", "down", "right")
	s.tick()
	s.mustShow("→6 requested", "1 staged")
	run.End("finished")
	s.tick()
	s.mustHide("requested", "staged")
}

// TestRefusedChange: the error is shown, and the staged values stay.
func TestRefusedChange(t *testing.T) {
	run := demo.Session()
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

// TestPanicsInCommands: a panic of the run or the report becomes a message.
func TestPanicsInCommands(t *testing.T) {
	run := demo.Session()
	s := newScreen(t, run, Options{Control: panicking{run}, Export: func() (string, error) { panic("no paper") }}, 120, 36)
	s.press("right", "enter")
	s.mustShow("apply the knobs: panic: out of order")
	s.press("e")
	s.mustShow("export: write the report: panic: no paper")
}

type panicking struct{ *demo.Run }

func (panicking) Set([]knob.Setting) error { panic("out of order") }

// TestTyping enters values as text.
func TestTyping(t *testing.T) {
	run := demo.Session()
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	s.press("enter", "1", "2", "backspace", "0", "enter")
	s.mustShow("→10 staged")
	s.press("esc", "enter", "9", "9", "enter")
	s.mustShow("num_workers=99: out of range; choose 0 to 64")
	s.press("down", "enter", "x", "enter")
	s.mustShow("=x: not a whole number")
	for range 9 {
		s.press("down")
	}
	s.press("enter", "5", "enter")
	if got := knob.ValueOf(s.panels.knobs.Changes(), "inject_read"); got != "5ms" {
		t.Errorf("inject_read typed as 5 is %q, want 5ms", got)
	}
	s.press("down", "i", "2", "u", "s", "enter", "enter")
	if got := fmt.Sprint(run.Requested()); !strings.Contains(got, "{inject_read 5ms} {inject_cpu 2µs}") {
		t.Errorf("asked for %s", got)
	}
}

// TestFastKeys: keys that arrive together are handled one after the other. A pasted text is not taken
// for keys.
func TestFastKeys(t *testing.T) {
	run := demo.Session()
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	s.send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("?n2ll")}) // help, closed by n, then two steps
	s.mustHide("esc closes")
	s.mustShow("→8 staged")
	s.press("esc")
	s.send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("i12")})
	s.press("enter")
	s.mustShow("→12 staged")
	s.press("esc")
	s.send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("qy?")})
	if !s.exit.quit || s.overlay.kind != overlayNone {
		t.Error("q and y together do not quit")
	}
	s = newScreen(t, run, Options{Control: run}, 120, 36)
	s.send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("qy"), Paste: true})
	if s.exit.quit || s.exit.asking {
		t.Error("a pasted text is taken for keys")
	}
}

// TestKnobWords: where there is room, the selected knob's help is shown in full, and its range even
// after a change.
func TestKnobWords(t *testing.T) {
	run := demo.Session()
	long := "how many samples the device works on at once, which is what fills it and what its memory has to hold"
	run.Meta(func(m *trace.Meta) { m.Specs[0].Help = long })
	s := newScreen(t, run, Options{Control: run}, 160, 50)
	s.mustShow("how many samples", " hold ", "0 to 64  applied at the next batch", "#2 ")
	s = newScreen(t, run, Options{Control: run}, 80, 24)
	s.mustShow("persistent_workers")
}

// TestAdvice: enter in the verdict panel stages what it suggests.
func TestAdvice(t *testing.T) {
	run := demo.Session()
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	s.press("3", "enter")
	if v := s.session.analysis.Told.First(); v.Knob == "" || knob.ValueOf(s.panels.knobs.Changes(), v.Knob) != v.Value {
		t.Errorf("staged %v, the verdict says %s %s", s.panels.knobs.Changes(), v.Knob, v.Value)
	}
	s = newScreen(t, demo.Session(), Options{}, 120, 36)
	s.press("3", "enter")
	s.mustShow("a replay's knobs are read-only")
	s = newScreen(t, demo.New(nil), Options{Control: demo.New(nil)}, 120, 36) // too early for any
	s.press("3", "enter")
	s.mustShow("nothing is advised now")
}

// TestMeasured: a knob's effect is a comparison with the last configuration that had enough steps.
// While there is none, the screen shows what is missing.
func TestMeasured(t *testing.T) {
	run := demo.Session()
	s := newScreen(t, run, Options{Control: run}, 160, 45)
	s.mustShow("of 50 steps")
	s.mustHide("...")
	_ = run.Set([]knob.Setting{{Name: "inject_cpu", Value: "2ms"}}) // a segment that is over at once
	run.Until(9300)
	_ = run.Set([]knob.Setting{{Name: "inject_cpu", Value: "4ms"}})
	run.Until(40_000)
	s.tick()
	if e := s.session.analysis.Effects["inject_cpu"]; e.Missing != "" || e.Ratio == 0 || e.Ratio > 0.6 {
		t.Errorf("inject_cpu off to 4ms reads %v", e.Says)
	}
}

// TestChangedKnobs: the columns of the experiments are the knobs that changed.
func TestChangedKnobs(t *testing.T) {
	run := demo.New(nil)
	run.Until(2000)
	s := newScreen(t, run, Options{Control: run}, 160, 45)
	s.mustHide(" workers ")
	_ = run.Set([]knob.Setting{{Name: "batch_size", Value: "64"}})
	run.Until(4000)
	s.tick()
	s.mustShow("#    batch samples/s")
}

// TestFeedback: typing shows a prompt, undo names every knob, and the log has changes of knobs, exports
// and hypotheses.
func TestFeedback(t *testing.T) {
	run := demo.Session()
	o := Options{Control: run, Note: run.Note, Export: func() (string, error) { return "/tmp/r.md", nil }}
	s := newScreen(t, run, o, 120, 36)
	s.press("/", "w", "1")
	s.mustShow("show lanes named w1", "enter takes it  esc drops it")
	s.press("esc", "2", "i", "7")
	s.mustShow("num_workers, 0 to 64: 7")
	s.press("enter", "down", "right", "enter")
	run.Until(9600)
	s.tick()
	s.mustShow("✓ confirmed")
	s.press("u")
	s.mustShow("undo: back to num_workers 4, prefetch_factor 2")
	s.press("N")
	s.send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("decoding is short of cores"), Paste: true})
	s.mustShow("hypothesis: decoding is short of cores")
	s.press("enter", "e")
	s.tick()
	s.press("n")
	s.mustShow("hypothesis: decoding is short of cores", "report written to /tmp/r.md", "#1 num_workers 2→4")
	s.press("esc", "9")
	s.mustShow("no panel 9 here: it shows the ranks of a distributed training", "quit")
	s.press("Q")
	s.mustShow("no key Q here: did you mean q?", "quit")
	s.press("y")
	s.mustShow("no key y here", "quit")
	s.press("1")
	for _, b := range s.focus.now.Describe().Keys { // an expert finds them all
		if b.Hint == "" {
			t.Errorf("the footer does not tell of %s", b.Keys)
		}
	}
	s.press("3")
	s.msg = message{}
	s.mustShow("p pause")
	run.End("finished")
	s.tick()
	s.msg = message{}
	s.mustHide("p pause")
	s.press("N")
	s.mustShow("the log of a run that has ended is closed")
}

// TestRiskOfStaged: the risk of the values staged now is shown beside them, and disappears with them.
func TestRiskOfStaged(t *testing.T) {
	run := demo.Session()
	asked := 0
	s := newScreen(t, run, Options{Control: run, Foresee: func(changes []knob.Setting) (string, bool) {
		asked++
		return changes[0].Name + " " + changes[0].Value + " is too much", true
	}}, 120, 36)
	s.press("2", "right")
	s.tick()
	value := s.panels.knobs.Changes()[0].Value
	s.mustShow("risk: num_workers " + value + " is too much")
	s.tick()
	if asked != 1 {
		t.Errorf("asked %d times about the same values", asked)
	}
	s.press("right")
	s.tick()
	s.mustHide("risk: num_workers " + value + " is")
	s.press("esc")
	s.tick()
	s.mustHide("risk:")
	// Even a small screen shows all of the risk, however long the verdict is.
	s = newScreen(t, run, Options{Control: run, Foresee: func([]knob.Setting) (string, bool) { return "it takes more memory than there is", true }}, 80, 24)
	s.press("2", "right")
	s.tick()
	s.session.analysis.Told.Verdict.Text = "input-bound: " + strings.Repeat("much to say, ", 60)
	s.press("2")
	s.mustShow("num_workers", "1 staged", "risk: it takes more memory than", "there is")
}

// TestRiskIsReadToItsEnd: a long risk takes the lines below it, and the lines of the
// help.
func TestRiskIsReadToItsEnd(t *testing.T) {
	run := demo.Session()
	s := newScreen(t, run, Options{Control: run, Foresee: func([]knob.Setting) (string, bool) {
		return strings.Repeat("a worker takes memory ", 8) + "to the end", true
	}}, 160, 60)
	s.press("2", "right")
	s.tick()
	s.mustShow("to the end")
}

// TestForetold: the row of a knob and the line about it tell the same prediction. It is no change, a
// range, or a range that is too wide to tell anything.
func TestForetold(t *testing.T) {
	run := demo.Session()
	s := newScreen(t, run, Options{Control: run}, 120, 70)
	name := s.panels.knobs.Selected().Name
	for _, tt := range []struct {
		p         trace.Prediction
		row, line string
	}{
		{trace.Prediction{Rate: 101, Lo: 96, Hi: 104}, "3:same", "predicted: 3 same, -4 to +4 %"},
		{trace.Prediction{Rate: 120, Lo: 110, Hi: 130}, "3:+10..+30%", "predicted: 3 +10 to +30 %"},
		{trace.Prediction{Rate: 101, Lo: 74, Hi: 103}, "3:-26..+3%", "predicted: 3 -26 to +3 %"},
		{trace.Prediction{Rate: 101, Lo: 60, Hi: 130}, "3:not now", "predicted: 3 not predictable now; an A/B test"},
		{trace.Prediction{Rate: 300, Lo: 180, Hi: 400}, "3:faster", "predicted: 3 at least +80 %; an A/B test"},
	} {
		tt.p.Base = 100
		s.session.analysis.Foresight = panel.Foresight{Predicted: []predict.Prediction{{Prediction: tt.p, Changes: []knob.Setting{{Name: name, Value: "3"}}}}}
		s.mustShow(tt.row, tt.line)
	}
}

// TestAdvisedTest: where a prediction does not tell whether the advice helps, the verdict names the keys of an A/B test rather than
// those that apply it.
func TestAdvisedTest(t *testing.T) {
	run := demo.Session()
	s := newScreen(t, run, Options{Control: run}, 200, 50)
	for lo, keys := range map[float64]string{80: "press 3 enter A", 110: "press 3 enter enter"} {
		s.session.analysis.Told.Findings = []advice.Finding{{Knob: "num_workers", From: "4", Value: "8", Remedy: "try num_workers 4 -> 8",
			Predicted: trace.Prediction{Base: 100, Rate: 115, Lo: lo, Hi: 130}}}
		s.panels.verdict.Loosen()
		s.mustShow(keys)
	}
}

// TestForetoldAdvised: a knob's row shows the prediction for the value that the verdict advises,
// although another value is predicted to do better. The line about the knob has both.
func TestForetoldAdvised(t *testing.T) {
	for _, tt := range []struct {
		w, h   int
		row    string
		detail bool // there is room for the line about the knob
	}{
		{120, 70, "8:+40..+60%", true},
		{100, 40, "+50%", false},
	} {
		run := demo.Session()
		s := newScreen(t, run, Options{Control: run}, tt.w, tt.h)
		name := s.panels.knobs.Selected().Name
		a := &s.session.analysis
		a.Told.Findings = []advice.Finding{{Knob: name, Value: "8"}}
		a.Foresight = panel.Foresight{Predicted: []predict.Prediction{
			{Prediction: trace.Prediction{Rate: 200, Lo: 180, Hi: 220, Base: 100}, Changes: []knob.Setting{{Name: name, Value: "3"}}},
			{Prediction: trace.Prediction{Rate: 150, Lo: 140, Hi: 160, Base: 100}, Changes: []knob.Setting{{Name: name, Value: "8"}}},
		}}
		s.mustShow(tt.row)
		if tt.detail {
			s.mustShow("predicted: 3 +80 to +120 %, 8 +40 to +60 %")
		}
	}
}
