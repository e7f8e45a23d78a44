// Package lab tells the whole story of a training that waits for data, alone: a baseline,
// its diagnosis, the fixes that the advisor ranks one by one, a validation, then precision,
// gradient accumulation, checkpointing and capture, and in the end everything that was kept
// once more, rung by rung. Each of its stages is a sweep (engine/batch/sweep) in a folder of its
// own, so that nothing is measured in another way, and a lab that was stopped goes on where
// it was. What a stage is depends on what those before it measured, and on nothing else.
package lab

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/batch/sweep"
)

// Request is what a lab is asked for.
type Request struct {
	Base   []knob.Setting `json:"base"`             // the baseline's settings, as far as they were chosen
	Slowed []string       `json:"slowed,omitempty"` // of them, those that were chosen to be slow
	Inject bool           `json:"inject,omitempty"` // a slow read, where the baseline does not wait for data
	Long   int            `json:"long"`             // steps of the baseline's and the validation's runs
	Trial  int            `json:"trial"`            // steps of the others
	Epochs int            `json:"epochs,omitempty"` // that Long is; 0 where steps were asked for
	Warmup int            `json:"warmup"`           // steps of each run that do not count
	Repeat int            `json:"repeat"`           // runs of each configuration, in turns
	Cores  int            `json:"cores"`            // of the host, for the loader to use
	Data   string         `json:"data,omitempty"`   // where the data set lies; empty for one that is made in memory
	Recipe Recipe         `json:"recipe"`

	Transforms *Transforms `json:"transforms,omitempty"` // where they were chosen

	Version string `json:"version"`
}

// Recipe is how the optimizer is set, for the script.
type Recipe struct {
	Optimizer   string  `json:"optimizer,omitempty"` // in Python, where one was chosen
	LR          float64 `json:"lr"`
	Momentum    float64 `json:"momentum"`
	WeightDecay float64 `json:"weight_decay"`
	Warmup      int     `json:"warmup"`             // steps
	Schedule    string  `json:"schedule,omitempty"` // in Python, where one was chosen
	ByEpoch     bool    `json:"by_epoch,omitempty"` // it is stepped after each epoch, not after each update
}

// Transforms are what is made of images, as lists of Python's with torchvision.transforms as T.
type Transforms struct {
	Train string `json:"train"`
	Test  string `json:"test"`
	Side  int    `json:"side"` // of the samples, the longer one
}

// Lab does what a Request asks for, in its folder.
type Lab struct {
	Request
	Dir    string
	Runner sweep.Runner
	// Check says why settings cannot be run here, and else what of them has no effect.
	Check func(all []knob.Setting) (refused string, idle []string)
	Tell  func(sweep.Event) // of the runs, counted over the whole lab
	Say   func(text string) // what the lab has found out

	Stages []*Stage
	Tried  []*Optimization // in the order in which they were
	Left   []string        // advice that was not tried, and why
	Spent  time.Duration   // on all runs
	// Injected is the slow read that the lab chose, empty where it chose none.
	Injected string

	base    []knob.Setting // the baseline's settings, what is injected included
	now     []knob.Setting // settings kept so far, beside the baseline's
	trial   int            // steps of a run that is no long one
	warned  bool           // that runs are too short
	outlook outlook
}

// stage is the newest one of a kind; nil when there is none.
func (l *Lab) stage(k Kind) *Stage {
	for _, s := range slices.Backward(l.Stages) {
		if s.Kind == k {
			return s
		}
	}
	return nil
}

// Run does what is left of the lab. When ctx ends, what was measured until then stays in
// the Lab and its error is returned.
func (l *Lab) Run(ctx context.Context) error {
	if l.Say == nil {
		l.Say = func(string) {}
	}
	l.Stages, l.Tried, l.Left, l.now = nil, nil, nil, nil
	l.base, l.trial, l.warned, l.Injected = l.Base, l.Trial, false, ""
	l.outlook = newOutlook(&l.Request)
	base, err := l.baseline(ctx)
	if err != nil {
		return err
	}
	if err := l.fixes(ctx, base); err != nil {
		return err
	}
	if err := l.workers(ctx); err != nil {
		return err
	}
	if err := l.validate(ctx); err != nil {
		return err
	}
	kept := len(l.now)
	for _, part := range []func(context.Context) error{l.precision, l.accumulation, l.checkpointing, l.capture} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	if len(l.now) > kept { // a faster device waits for what was fast enough before
		if m := l.latest(); m != nil {
			if err := l.fixes(ctx, m); err != nil {
				return err
			}
		}
	}
	return l.ladder(ctx)
}

// baseline measures where the story begins.
func (l *Lab) baseline(ctx context.Context) (*sweep.Measured, error) {
	if l.Inject {
		s, err := l.measure(ctx, Probe, "the baseline as it is", []sweep.Config{{Before: -1, Name: "as it is"}}, l.trial, 1)
		if err != nil {
			return nil, err
		}
		if err := l.slow(s.row(0)); err != nil {
			return nil, err
		}
	}
	s, err := l.measure(ctx, Baseline, "baseline", []sweep.Config{{Before: -1, Name: "baseline"}}, l.Long, l.Repeat)
	if err != nil {
		return nil, err
	}
	m := s.Results.Rows[0].First()
	l.Say("diagnosis: " + m.Verdict.Text)
	return m, nil
}

// Slow reads: so many times as long as a step takes, by the median, which a neighbour that
// came by for a while does not move, so that about two thirds of the time are lost to
// them; and from the least that a clock keeps to.
const (
	slowness  = 3
	leastRead = 50 * time.Microsecond
)

// slow injects a slow read where the device does not wait for data: a loader that keeps up
// has nothing to show.
func (l *Lab) slow(r *sweep.Result) error {
	_, highly := advice.Thresholds()
	if r == nil || r.Stats.DataShare() >= highly || r.Stats.Samples == 0 {
		return nil
	}
	wait := time.Duration(slowness * float64(r.P50) * float64(r.Stats.Steps) / float64(r.Stats.Samples)).Round(10 * time.Microsecond)
	l.Injected = knob.Duration(max(wait, leastRead))
	l.base = with(l.base, knob.Setting{Name: knob.InjectPrefix + "read", Value: l.Injected})
	l.Say(fmt.Sprintf("the device waits for data %s of the time, which leaves nothing to improve: each read is made to take %s longer (injected; --as-is, --data or --inject none leave it be)",
		units.Prose.Percent(r.Stats.DataShare()), units.Prose.Time(int64(l.slower()))))
	return nil
}

// slower is by how much each read takes longer, on purpose; 0 where none does.
func (l *Lab) slower() time.Duration {
	d, _ := knob.ParseDuration(l.Injected) // as slow wrote it
	return d
}

// Err says that runs failed, nil where none did.
func (l *Lab) Err() error {
	var failed []string
	for _, s := range l.Stages {
		for i := 0; s.Results != nil && i < len(s.Results.Rows); i++ {
			if r := &s.Results.Rows[i]; r.Failed != "" {
				failed = append(failed, s.Title+": "+r.Name)
			}
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return errs.New("run the lab in", l.Dir, units.Counted(len(failed), "configuration", "configurations")+" failed: "+strings.Join(failed, ", "), "the report says why; --resume tries them again")
}

// with is settings with one more, or with its value changed.
func with(settings []knob.Setting, more ...knob.Setting) []knob.Setting {
	out := slices.Clone(settings)
	for _, k := range more {
		if i := slices.IndexFunc(out, func(o knob.Setting) bool { return o.Name == k.Name }); i >= 0 {
			out[i] = k
		} else {
			out = append(out, k)
		}
	}
	return out
}

// inForce is the value of a knob with the settings kept so far, as a run shows it.
func (l *Lab) inForce(name string) string {
	if v := knob.ValueOf(l.now, name); v != "" {
		return v
	}
	if m := l.stage(Baseline).row(0); m != nil {
		return knob.ValueOf(m.First().Segment.Knobs, name)
	}
	return knob.ValueOf(l.base, name)
}
