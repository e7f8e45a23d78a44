package nn_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dev.gpustall/engine/train/nn"
	"dev.gpustall/kernels"
)

// optimizerGolden is what testdata/nn/make_optimizers.py wrote: how PyTorch trains.
type optimizerGolden struct {
	golden
	Runs []struct {
		Optimizer string
		Losses    []float64
		Weights   []struct {
			fingerprint
			Moved float64 // in the 50 steps, relative to where it ends
		}
	}
}

func parse(t testing.TB, text string) nn.Optimizer {
	t.Helper()
	o, err := nn.ParseOptimizer(text)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestOptimizers follows PyTorch's optimizers over 50 steps from the same weights. A
// gradient that rounds to the other side of a ReLU's corner costs more than rounding.
func TestOptimizers(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "testdata", "nn", "optimizers.json"))
	if err != nil {
		t.Fatal(err)
	}
	var g optimizerGolden
	if err := json.Unmarshal(raw, &g); err != nil {
		t.Fatal(err)
	}
	dev := cpuDevice(t)
	m := g.model(t)
	seen := map[kernels.Rule]bool{}
	for _, run := range g.Runs {
		o := parse(t, run.Optimizer)
		seen[o.Rule] = true
		tr := newTrainer(t, dev, m, g.Seed, g.Batch, func(c *nn.PlanConfig) { c.Rule, c.WeightsOnly = o.Rule, o.WeightsOnly })
		tr.check(tr.st.SetHyper(tr.stream, o.Hyper))
		for i, want := range run.Losses {
			tr.load(g.batch(g.Batch, i))
			if loss, _ := tr.run(tr.train); !(math.Abs(loss/want-1) < 1e-4) {
				t.Errorf("%s: step %d: loss %.6f, not %.6f", run.Optimizer, i, loss, want)
				break
			}
		}
		for _, f := range run.Weights {
			v, err := tr.st.Read(f.Name)
			tr.check(err)
			if got, most := f.distance(v), 0.005*f.Moved; !(got < most) {
				t.Errorf("%s: %s ends %.1e from PyTorch's, over %.1e", run.Optimizer, f.Name, got, most)
			}
		}
	}
	if len(seen) != len(kernels.Rules()) {
		t.Errorf("the golden has %d of %d rules", len(seen), len(kernels.Rules()))
	}
}

// TestRules: every rule has a row. A rule with its defaults is written as its name alone,
// and what is written can be read.
func TestRules(t *testing.T) {
	for _, r := range kernels.Rules() {
		o := parse(t, r.String())
		if o.Rule != r || o.String() != r.String() || !o.Chosen || len(r.Slots()) > kernels.MaxSlots {
			t.Errorf("%s reads as %+v and is written %q", r, o, o)
		}
		if got := parse(t, r.String()+","+strings.Join(nn.OptimizerSettings(r.String()), ",")); got != o {
			t.Errorf("%s with its defaults written out is %+v, not %+v", r, got, o)
		}
	}
	for _, text := range []string{"auto", "adamw,lr=0.0003,weight_decay=0.05", "momentum,lr=0.1,decay=weights", "adam,beta1=0.8,eps=1e-06", "adadelta,rho=0.95"} {
		if got := parse(t, text).String(); got != text {
			t.Errorf("%s is written %s", text, got)
		}
	}
	for text, want := range map[string]string{
		"nesterov":              "torch.optim.SGD(m.parameters(), lr=X, momentum=0.9, weight_decay=0, nesterov=True)",
		"adam,lr=1,beta2=0.99":  "torch.optim.Adam(m.parameters(), lr=X, betas=(0.9, 0.99), weight_decay=0, eps=1e-08)",
		"adagrad,decay=weights": `torch.optim.Adagrad([{"params": [p for p in m.parameters() if p.dim() > 1]}, {"params": [p for p in m.parameters() if p.dim() == 1], "weight_decay": 0.0}], lr=X, lr_decay=0, weight_decay=0, eps=1e-10)`,
	} {
		if got := parse(t, text).Torch("m", "X"); got != want {
			t.Errorf("%s in PyTorch is %s", text, got)
		}
	}
	if got, want := parse(t, " adamw , lr=3e-4").String(), "adamw,lr=0.0003"; got != want {
		t.Errorf("it is written %s, not %s", got, want)
	}
	for text, says := range map[string]string{
		"adm":               `there is no optimizer "adm"; choose auto, sgd, momentum`,
		"":                  `there is no optimizer ""`,
		"auto,lr=1":         "auto has no settings",
		"adam,lr":           `"lr" is no setting; write NAME=VALUE with one of lr, beta1, beta2, weight_decay, eps or decay`,
		"adam,":             `"" is no setting`,
		"adam,lr=much":      "lr=much is not a number",
		"adam,lr=0":         "lr=0 is out of range; choose more than 0",
		"adam,lr=NaN":       "lr=NaN is not a number",
		"adam,beta1=1":      "beta1=1 is out of range; choose 0 or more, and less than 1",
		"sgd,momentum=0.9":  `sgd has no setting "momentum"; it takes lr, weight_decay or decay`,
		"adam,lr=1,lr=2":    "lr is there twice",
		"adamw,decay=norms": "decay=norms is neither all nor weights",
	} {
		if _, err := nn.ParseOptimizer(text); err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

// TestChangeOptimizer: another rule begins with empty slots. If the change is taken
// back, even in another type, the old rule has its slots again.
func TestChangeOptimizer(t *testing.T) {
	m, g := tiny(t)
	dev := newRefDevice()
	tr := newTrainer(t, dev, m, 5, 4, func(c *nn.PlanConfig) { c.Rule = kernels.Adam })
	tr.check(tr.st.SetHyper(tr.stream, parse(t, "adam").Hyper))
	tr.load(g.batch(4, 0))
	for range 3 {
		tr.run(tr.train)
	}
	kept := func(name string) []float32 {
		t.Helper()
		saved, err := tr.st.Save(false)
		tr.check(err)
		for _, v := range saved.Optimizer {
			if v.Name == name {
				return v.Data
			}
		}
		return nil
	}
	const squares = "exp_avg_sq.conv1.weight"
	change := func(typ kernels.Type, accumulate int, rule kernels.Rule) {
		t.Helper()
		tr.check(tr.st.Configure(nn.Layout{Type: typ, Accumulate: accumulate, Rule: rule}))
	}
	before := kept(squares)
	if n := kept("step"); slices.Max(before) == 0 || n[0] != 3 {
		t.Errorf("after three updates step is %g, and the largest square %g", n, slices.Max(before))
	}
	change(kernels.BF16, 2, kernels.Momentum)
	if v := kept("momentum_buffer.conv1.weight"); slices.Max(v) != 0 || slices.Min(v) != 0 {
		t.Error("the new rule's slot is not empty")
	}
	if kept(squares) != nil || kept("step") != nil {
		t.Error("the old rule's slots are saved")
	}
	change(kernels.F32, 1, kernels.Adam)
	if n := kept("step"); !slices.Equal(kept(squares), before) || n[0] != 3 {
		t.Errorf("a change that was taken back lost the slots, or the updates (%g)", n)
	}
	tr.st.Settle()
	saved, err := tr.st.Save(false)
	tr.check(err)
	change(kernels.F32, 1, kernels.SGD)
	tr.st.Settle()
	change(kernels.F32, 1, kernels.Adam)
	if n := kept("step"); slices.Max(kept(squares)) != 0 || n[0] != 0 {
		t.Error("a change that was settled kept the slots")
	}
	tr.check(tr.st.Restore(saved))
	if n := kept("step"); !slices.Equal(kept(squares), before) || n[0] != 3 {
		t.Error("what was saved is not restored")
	}
}
