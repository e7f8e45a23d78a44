package tui

import (
	"errors"
	"strings"
	"testing"

	lab "dev.gpustall/engine/analysis/experiment"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/internal/demo"
)

// asking begins experiments on a simulated run, as a live one does.
type asking struct {
	run *demo.Run
	now *lab.Experiment
	err error
}

func (a *asking) Begin(kind trace.ExperimentKind, knobs []knob.Setting) (err error) {
	if a.err != nil {
		return a.err
	}
	a.now, err = lab.New(lab.Question{Kind: kind, Knobs: knobs}, a.run.Snapshot(0, 0), a.run, a.run)
	return err
}

func (a *asking) Stop() { a.now.Stop(a.run.Snapshot(0, 0)) }

// look runs on until the experiment is over.
func (a *asking) look(t *testing.T) {
	t.Helper()
	for range 3000 {
		a.run.Advance(a.run.Now() + 100e6)
		if a.now.Look(a.run.Snapshot(0, 0)) {
			return
		}
	}
	t.Fatal("it goes on for ever")
}

// askingScreen makes the screen of a run that can do experiments.
func askingScreen(t *testing.T) (*screen, *asking) {
	run := demo.New(nil)
	run.Advance(4e9)
	a := &asking{run: run}
	return newScreen(t, run, Options{Control: run, Experiments: a}, 120, 36), a
}

// TestPaired: A begins an A/B test of the staged values. The screen shows its progress and its
// result, and one row for all its segments.
func TestPaired(t *testing.T) {
	s, a := askingScreen(t)
	s.press("A")
	s.mustShow("stage the other value of a knob")
	s.press("right", "A")
	if a.now == nil || len(s.panels.knobs.Changes()) > 0 {
		t.Fatalf("not begun, or still staged: %v", s.panels.knobs.Changes())
	}
	verdicts, blocks := map[string]bool{}, map[string]bool{}
	for range 60 {
		a.run.Advance(a.run.Now() + 100e6)
		a.now.Look(a.run.Snapshot(0, 0))
		if s.tick(); s.panels.knobs.InForce("num_workers") == "4" || len(blocks) > 0 { // A stays in force until then
			verdicts[s.session.analysis.Told.Verdict.Text], blocks[s.panels.knobs.InForce("num_workers")] = true, true
		}
	}
	s.msg = message{}
	s.mustShow("held while A/B test goes on: all ")
	if len(verdicts) != 1 || len(blocks) != 2 {
		t.Errorf("the verdict moves with the blocks %v: %v", blocks, verdicts)
	}
	s.mustShow(" A/B TEST ", "A/B test: num_workers 2 -> 4: not significant yet: ", "of 6 pairs", "under way", "A stop A/B test")
	s.press("A")
	s.mustShow("stopping: the settings that it began with come back")
	a.look(t)
	s.tick()
	s.mustShow("taken back", "it was stopped")
	s.mustHide(" A/B TEST  ", "under way", "held")

	s.press("right", "A")
	a.look(t)
	a.run.Advance(a.run.Now() + 2e9)
	s.tick()
	s.mustShow("A/B test: num_workers 2 -> 4: +", "it stays")
	if got := s.panels.knobs.InForce("num_workers"); got != "4" {
		t.Errorf("num_workers is %s", got)
	}
	s.press("5", "esc")
	if asked, segs := len(s.session.analysis.Asked), len(s.session.analysis.Segs); asked != 2 || segs > 4 {
		t.Errorf("%d rows of experiments and %d of segments", asked, segs)
	}
	s.mustShow("A/B")
	s.press("up", "a")
	s.mustShow("an experiment has no settings of its own")
	s.press("u")
	s.tick()
	a.run.Advance(a.run.Now() + 2e9)
	s.tick()
	if got := s.panels.knobs.InForce("num_workers"); got != "2" {
		t.Errorf("undone, num_workers is %s", got)
	}
}

// TestAgainstBaseline: with nothing staged, A compares with the baseline's settings.
func TestAgainstBaseline(t *testing.T) {
	s, a := askingScreen(t)
	s.press("right", "enter")
	a.run.Advance(9e9)
	s.tick()
	s.press("A")
	if a.now == nil {
		t.Fatal("not begun")
	}
	s.tick()
	s.mustShow("A/B test: num_workers 4 -> 2")
}

// TestTakenBack: after a test that is taken back, the knob's row has the gain of the value in force,
// and undo takes back the change before the test. While the test goes on, nothing is predicted, and u
// stops it.
func TestTakenBack(t *testing.T) {
	s, a := askingScreen(t)
	s.press("right", "enter")
	s.mustShow("asked for num_workers 4; u takes it back")
	a.run.Advance(9e9)
	s.tick()
	if len(s.session.analysis.Predicted) == 0 {
		t.Fatal("nothing is predicted")
	}
	s.press("5", "A") // the selected row is in force, so it is tested against A
	s.tick()
	s.mustShow("A/B test: num_workers 4 -> 2", "under way")
	if n := len(s.session.analysis.Predicted); n > 0 {
		t.Errorf("%d predictions are about other settings than the test's", n)
	}
	s.press("u")
	s.mustShow("stopping: the settings that it began with come back")
	a.look(t)
	a.run.Advance(a.run.Now() + 2e9)
	s.tick()
	s.mustHide("by hand")
	if got := s.panels.knobs.InForce("num_workers"); got != "4" {
		t.Errorf("stopped, num_workers is %s", got)
	}

	s.press("A")
	a.look(t)
	a.run.Advance(a.run.Now() + 2e9)
	s.tick()
	s.mustShow("taken back")
	if e := s.session.analysis.Effects["num_workers"]; e.Of != "2 -> 4" || e.Ratio < 1.2 {
		t.Errorf("4 is in force and its row says %s %s", e.Of, e.Says)
	}
	segs := s.session.analysis.Segs
	if e, vsA := s.session.analysis.Effects["num_workers"], segs[len(segs)-1].VsA.Throughput; e.Estimate() != vsA.Estimate() {
		t.Errorf("%s in the knobs, %s in the experiments", e.Says, &vsA)
	}
	s.press("u")
	s.mustShow("undo: back to num_workers 2")
	s.press("u")
	s.mustShow("nothing to undo")
}

// TestCeiling: c serves cached batches for a while, and shows the result.
func TestCeiling(t *testing.T) {
	s, a := askingScreen(t)
	s.press("c")
	a.look(t)
	a.run.Advance(a.run.Now() + 6e9)
	s.tick()
	s.mustShow("fixing data buys at most +", "max")
	s.msg = message{}
	s.press("1", "g")
	s.tick()
	s.press("G") // back from the start is no news
	s.tick()
	s.mustHide("ceiling: fixing data")
	if got := s.panels.knobs.InForce("ceiling"); got != "off" {
		t.Errorf("ceiling is %s", got)
	}
	a.err = errors.New("begin an experiment: another one is under way")
	s.press("c")
	s.mustShow("another one is under way")
	if frame := s.plain(); strings.Contains(frame, "INTERLUDE") {
		t.Error("the interlude is over")
	}
	s.run.End("finished")
	s.tick()
	s.press("c")
	s.mustShow("only a run that goes on can be asked")
}

// TestTune: T tunes, and shows what is tried, what is left of the budget and the result. T and esc
// stop it.
func TestTune(t *testing.T) {
	s, a := askingScreen(t)
	begin := func() {
		t.Helper()
		a.now = nil
		s.press("T")
		if a.now == nil {
			t.Fatalf("not begun: %s", s.msg.text)
		}
	}
	begin()
	for range 15 {
		a.run.Advance(a.run.Now() + 100e6)
		a.now.Look(a.run.Snapshot(0, 0))
	}
	s.tick()
	s.msg = message{}
	s.mustShow(" TUNING ", "tune: trial 1, ", "of its budget left", "T stop tuning", "tun ")
	s.press("esc")
	s.mustShow("stopping: the settings that it began with come back")
	a.look(t)
	s.tick()
	s.mustShow("it was stopped")
	s.mustHide(" TUNING ")
	if got := s.panels.knobs.InForce("num_workers"); got != "2" {
		t.Errorf("stopped, num_workers is %s", got)
	}

	begin()
	a.look(t)
	a.run.Advance(a.run.Now() + 3e9)
	s.tick()
	s.mustShow("tune: ", "it stays")
	if s.panels.knobs.InForce("num_workers") == "2" && s.panels.knobs.InForce("device_transforms") == "off" {
		t.Error("left as it was found")
	}
	s.press("n")
	s.mustShow("tune: at the start: ", "confirmed")
}

// TestEndsUnseen: while the screen is frozen, an A/B test is seen to go on, and to end.
func TestEndsUnseen(t *testing.T) {
	s, a := askingScreen(t)
	s.press("space", "right", "A")
	s.tick()
	s.mustShow(" FROZEN ", " A/B TEST ")
	a.look(t)
	s.tick()
	s.mustShow("A/B test has ended; space goes on and shows what it found")
	s.mustHide(" A/B TEST ")
	s.msg = message{}
	s.press("space")
	s.tick()
	s.mustShow("A/B test: num_workers 2 -> 4: +")
}
