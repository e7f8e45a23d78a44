package lab

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/batch/sweep"
)

// Kind is what a stage is for.
type Kind string

// The kinds of stages.
const (
	Probe         Kind = "probe" // of what the baseline does without a slow read
	Baseline      Kind = "baseline"
	Fix           Kind = "fix"
	Workers       Kind = "num_workers"
	Validation    Kind = "validation"
	Precision     Kind = "precision"
	Accumulation  Kind = "gradient_accumulation"
	Checkpointing Kind = "checkpointing"
	Capture       Kind = "capture"
	Ladder        Kind = "ladder"
)

// Stage is one sweep of the story.
type Stage struct {
	Kind    Kind
	Title   string
	Folder  string         // below the lab's
	Results *sweep.Results // nil where nothing could be run
	Skipped string         // why nothing was run
	Configs []sweep.Config // of its plan
}

// folder is where its runs lie.
func (s *Stage) folder(l *Lab) sweep.Folder { return sweep.Folder(filepath.Join(l.Dir, s.Folder)) }

// row is a configuration's result; nil where it has none.
func (s *Stage) row(i int) *sweep.Result {
	if s == nil || s.Results == nil || i >= len(s.Results.Rows) || !s.Results.Rows[i].Measured() {
		return nil
	}
	return &s.Results.Rows[i]
}

// measure runs a stage: its first configuration is what the others are compared with. One
// that would do the same as the first is not run.
func (l *Lab) measure(ctx context.Context, k Kind, title string, configs []sweep.Config, steps, repeat int) (*Stage, error) {
	p := &sweep.Plan{Base: l.base, Configs: configs, Ladder: len(configs) > 1, Steps: steps, Warmup: l.Warmup, Repeat: repeat, Version: l.Version}
	s := &Stage{Kind: k, Title: title, Folder: filepath.Join("stages", fmt.Sprintf("%02d-%s", len(l.Stages)+1, k))}
	l.Stages = append(l.Stages, s)
	if err := p.Check(l.Check); err != nil {
		return s, err
	}
	s.Configs = p.Configs
	left, why := 0, ""
	for i := range p.Configs {
		c := &p.Configs[i]
		if i > 0 && c.Refused == "" {
			c.Refused = other(c.Idle, p.Configs[0].Idle)
		}
		if c.Refused == "" {
			left++
		} else if why == "" {
			why = c.Refused
		}
	}
	if p.Configs[0].Refused != "" {
		return s, errs.New("run", "the lab's "+title, p.Configs[0].Refused, "choose other settings")
	}
	if left == 1 && len(configs) > 1 {
		s.Skipped = cmp.Or(why, "there is nothing to compare with")
		return s, nil
	}
	again := 0
	if was, err := s.folder(l).Plan(); err == nil && was.Steps > steps && was.Steps <= mostLonger*steps { // before it was stopped, they were too few
		l.lengthen(s, p, was.Steps)
		again = mostAgain // so that a stage that had its end comes to the same one
	}
	l.outlook.enter(k, p)
	for ; ; again++ {
		if err := l.runs(ctx, s, p); err != nil {
			return s, err
		}
		longer := int(math.Ceil(1.2 * lacking(s.Results) * float64(p.Steps)))
		switch {
		case longer <= p.Steps, k == Workers: // of many, the slowest among them, the interval is worth less than the time
			return s, nil
		case longer > mostLonger*steps || again == mostAgain:
			if !l.warned {
				l.Say(fmt.Sprintf("%d steps are too few to compare %s: --steps %d would do", p.Steps, title, longer))
				l.warned = true
			}
			return s, nil
		}
		l.Say(fmt.Sprintf("%d steps are too few to compare %s: again with %d", p.Steps, title, longer))
		l.lengthen(s, p, longer)
	}
}

// lengthen makes the runs of a stage longer, and of those after it: what was kept makes steps
// shorter, so they would be too few there as well. Those of accumulation have small batches.
func (l *Lab) lengthen(s *Stage, p *sweep.Plan, steps int) {
	if p.Steps = steps; s.Kind != Accumulation {
		l.trial = max(l.trial, steps)
		l.outlook.lengthen(l.trial + l.Warmup)
	}
}

// Where a comparison lacks steps, time or windows, a stage is measured again at the most so
// often, with runs at the most so many times as long. On a host that comes and goes, windows
// grow with the runs.
const (
	mostAgain  = 2
	mostLonger = 5
)

// lacking is how many times as many steps a comparison with the first configuration needs;
// 0 where steps are not what is missing.
func lacking(r *sweep.Results) (times float64) {
	for i := range r.Rows {
		switch m := r.Rows[i].Against.Throughput.Missing; m.What {
		case stats.Steps, stats.Time, stats.Windows:
			times = max(times, m.Want/max(m.Have, 0.01*m.Want))
		}
	}
	return times
}

// runs does the runs of a stage.
func (l *Lab) runs(ctx context.Context, s *Stage, p *sweep.Plan) (err error) {
	s.Results, err = p.Measure(ctx, s.folder(l), l.Runner, func(e sweep.Event) {
		e.Name = s.Title + ": " + e.Name
		if len(p.Configs) == 1 {
			e.Name = s.Title
		}
		l.outlook.add(&e, p)
		l.Spent += e.Took
		l.Tell(e)
	})
	if err != nil {
		return err
	}
	if row := &s.Results.Rows[0]; !row.Measured() {
		return errs.New("run", "the lab's "+s.Title, row.Failed, "repair it, and go on with --resume")
	}
	return l.Save() // what was spent, should nobody be left to write it down in the end
}

// other are the sentences that another list has not.
func other(of, than []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(of), func(s string) bool { return slices.Contains(than, s) }), "; ")
}
