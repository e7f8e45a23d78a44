package nn_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dev.gpustall/engine/train/nn"
)

// TestOneCycleOfNoRise: if the top of the cycle is its first update, the rate begins at
// the top.
func TestOneCycleOfNoRise(t *testing.T) {
	s, err := nn.ParseSchedule("onecycle,max_lr=0.4,pct_start=0.1")
	if err != nil {
		t.Fatal(err)
	}
	if h := s.At(nn.Progress{Total: 10, Cycles: true}, nn.Hyper{LR: 1}); h.LR != 0.4 || h.Momentum != 0.85 {
		t.Errorf("it begins with %+v", h)
	}
}

// TestSchedules follows PyTorch's schedulers: testdata/nn/make_schedules.py.
func TestSchedules(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "testdata", "nn", "schedules.json"))
	if err != nil {
		t.Fatal(err)
	}
	var g struct {
		LR, Momentum float64
		Epochs       int
		PerEpoch     int `json:"per_epoch"`
		Runs         []struct {
			Schedule string
			Values   [][2]float64 // rate and momentum of each update
		}
	}
	if err := json.Unmarshal(raw, &g); err != nil {
		t.Fatal(err)
	}
	kinds := map[nn.ScheduleKind]bool{}
	for _, run := range g.Runs {
		s, err := nn.ParseSchedule(run.Schedule)
		if err != nil {
			t.Fatal(err)
		}
		if s.String() != run.Schedule {
			t.Errorf("%s is written %s", run.Schedule, s)
		}
		kinds[s.Kind] = true
		base := nn.Hyper{LR: g.LR, Momentum: g.Momentum, WeightDecay: 1}
		for i, want := range run.Values {
			p := nn.Progress{Update: i, Total: len(run.Values), Epoch: i / g.PerEpoch, Cycles: true}
			h := s.At(p, base)
			if math.Abs(h.LR-want[0]) > 1e-8 || math.Abs(h.Momentum-want[1]) > 1e-8 || h.WeightDecay != 1 {
				t.Errorf("%s: update %d has %+v, want %v", run.Schedule, i, h, want)
				break
			}
			p.Cycles = false
			if h := s.At(p, base); h.Momentum != g.Momentum {
				t.Errorf("%s changes the momentum of an optimizer that has none", run.Schedule)
			}
		}
		n := len(run.Values)
		if over, last := s.At(nn.Progress{Update: n + 50, Total: n, Epoch: g.Epochs - 1}, base), s.At(nn.Progress{Update: n, Total: n, Epoch: g.Epochs - 1}, base); over != last {
			t.Errorf("%s goes on behind its end: %+v, then %+v", run.Schedule, last, over)
		}
	}
	if len(kinds)+1 != len(nn.ScheduleNames()) {
		t.Errorf("the golden has %d kinds of schedule", len(kinds))
	}
	for text, says := range map[string]string{
		"warm":                   `there is no schedule "warm"; choose auto, constant, step, cosine or onecycle`,
		"constant,lr=1":          `constant has no settings, and there is "lr=1"; leave it away`,
		"onecycle,maxlr=1":       `onecycle has no setting "maxlr"; it takes max_lr,`,
		"onecycle,pct_start=0":   "pct_start=0 is out of range; choose more than 0, and less than 1",
		"step,step_size=quickly": "step_size=quickly is not a number",
	} {
		if _, err := nn.ParseSchedule(text); err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}
