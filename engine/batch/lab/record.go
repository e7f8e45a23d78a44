package lab

import (
	"fmt"
	"slices"
	"time"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/batch/sweep"
)

// Record is what a lab was asked for, what it has measured, and what it has kept. Report,
// table, pictures and script are made from it alone. A Lab writes it while it runs.
type Record struct {
	Request
	Stages []*Stage
	Tried  []*Optimization // in the order in which they were tried
	Left   []string        // advice that was not tried, and why
	Spent  time.Duration   // on all runs
	// Injected is the slow read that the lab chose; empty where it chose none.
	Injected string

	base []knob.Setting // the baseline's settings, with what is injected
	now  []knob.Setting // settings kept so far, beside the baseline's
}

// restart forgets what was found, as a Run finds all of it again. Spent stays: it counts
// earlier runs too.
func (r *Record) restart() {
	*r = Record{Request: r.Request, Spent: r.Spent, base: r.Base}
}

// stage returns the newest stage of a kind; nil when there is none.
func (r *Record) stage(k Kind) *Stage {
	for _, s := range slices.Backward(r.Stages) {
		if s.Kind == k {
			return s
		}
	}
	return nil
}

// inForce returns the value of a knob with the settings kept so far, as a run shows it.
func (r *Record) inForce(name string) string {
	if v := knob.ValueOf(r.now, name); v != "" {
		return v
	}
	if m := r.stage(Baseline).row(0); m != nil {
		return knob.ValueOf(m.First().Segment.Knobs, name)
	}
	return knob.ValueOf(r.base, name)
}

// final returns the settings that the lab ends with, as a run shows them; empty before the
// baseline is measured.
func (r *Record) final() []knob.Setting {
	b := r.stage(Baseline).row(0)
	if b == nil {
		return nil
	}
	knobs := with(b.First().Segment.Knobs, r.now...)
	return slices.DeleteFunc(knobs, knob.Setting.IsInject)
}

// slower returns by how much each read takes longer, on purpose; 0 where none does.
func (r *Record) slower() time.Duration {
	d, _ := knob.ParseDuration(r.Injected) // story.slow wrote it
	return d
}

// kept returns the optimizations that were kept.
func (r *Record) kept() (all []*Optimization) {
	for _, o := range r.Tried {
		if o.Kept {
			all = append(all, o)
		}
	}
	return all
}

// first returns the first run that ended; nil when there is none.
func (r *Record) first() *sweep.Measured {
	for _, k := range []Kind{Baseline, Probe} {
		if row := r.stage(k).row(0); row != nil {
			return row.First()
		}
	}
	return nil
}

// latest returns the run that measured the settings kept so far; nil when there is none.
func (r *Record) latest() *sweep.Measured {
	for _, o := range slices.Backward(r.Tried) {
		if row := o.row(); o.Kept && row != nil {
			return row.First()
		}
	}
	if row := r.stage(Baseline).row(0); row != nil {
		return row.First()
	}
	return nil
}

// ends returns the baseline and everything that was kept, measured in one stage. best is
// nil where nothing was kept, or it was not measured together yet.
func (r *Record) ends() (s *Stage, base, best *sweep.Result) {
	for _, k := range []Kind{Ladder, Validation} {
		if s = r.stage(k); s != nil && s.Results != nil {
			if best = s.row(len(s.Results.Rows) - 1); best != nil && s.row(0) != nil {
				return s, s.row(0), best
			}
		}
	}
	s = r.stage(Baseline)
	return s, s.row(0), nil
}

// done reports whether the lab came to its end.
func (r *Record) done() bool {
	s := r.stage(Ladder)
	return s != nil && (s.Skipped != "" || s.Results != nil && s.Results.Done() == len(s.Results.Plan.Order()))
}

// ended returns how many runs have ended.
func (r *Record) ended() (n int) {
	for _, s := range r.Stages {
		if s.Results != nil {
			n += s.Results.Done()
		}
	}
	return n
}

// Labels returns what must be known about the numbers of any run.
func (r *Record) Labels() (all []advice.Label) {
	for _, s := range r.Stages {
		if s.Results != nil {
			all = sweep.MergeLabels(all, s.Results.Labels())
		}
	}
	return all
}

// subject says what was trained on what.
func (r *Record) subject() string {
	if m := r.first(); m != nil {
		return m.Meta.Model + " on " + m.Meta.Device
	}
	return "nothing was measured yet"
}

// Headline says in one sentence what the lab found.
func (r *Record) Headline() string {
	s, base, best := r.ends()
	n := len(r.kept())
	switch {
	case base == nil:
		return "the baseline was not measured yet"
	case best == nil && r.done():
		return "nothing that was tried is faster than the baseline for sure"
	case best == nil && n == 0:
		return "nothing was kept so far"
	case best == nil:
		return fmt.Sprintf("%s kept so far, and not measured together yet", units.Counted(n, "optimization was", "optimizations were"))
	}
	rates := units.Rate(base.Rate.Value) + " -> " + units.Rate(best.Rate.Value) + " samples/s"
	change := &best.Against.Throughput
	text := fmt.Sprintf("with %s: throughput %v against the baseline, %s",
		units.Counted(n, "optimization", "optimizations"), change, rates)
	if !better(change) {
		text = fmt.Sprintf("%s kept, but what is gained together is not confirmed: throughput %v; %s",
			units.Counted(n, "optimization was", "optimizations were"), change, rates)
	}
	if s.Kind != Ladder {
		text += "; the optimizations of the device are not among them yet"
	}
	return text
}

// with returns settings with others added, or with their values changed.
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
