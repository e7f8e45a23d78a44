package lab

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/batch/sweep"
)

// bench does the runs of stages: it decides how long runs are, repeats a stage whose runs
// were too short, and tells how much is left. It lasts as long as one Run of its lab.
type bench struct {
	lab     *Lab
	outlook outlook
	trial   int  // steps of a run of the usual length
	warned  bool // that runs are too short
}

func newBench(l *Lab) *bench {
	return &bench{lab: l, outlook: newOutlook(&l.Request), trial: l.Trial}
}

// try measures a stage with runs of the usual length.
func (b *bench) try(ctx context.Context, k Kind, title string, configs []sweep.Config) (*Stage, error) {
	return b.measure(ctx, k, title, configs, b.trial, b.lab.Repeat)
}

// measure does the runs of a stage. All configurations are compared with the first one;
// those that would do the same as the first one are not run.
func (b *bench) measure(ctx context.Context, k Kind, title string, configs []sweep.Config, steps, repeat int) (*Stage, error) {
	l := b.lab
	p := &sweep.Plan{
		Base: l.base, Configs: configs, Ladder: len(configs) > 1,
		Steps: steps, Warmup: l.Warmup, Repeat: repeat, Version: l.Version,
	}
	s := &Stage{Kind: k, Title: title, Folder: filepath.Join("stages", fmt.Sprintf("%02d-%s", len(l.Stages)+1, k))}
	l.Stages = append(l.Stages, s)
	if err := p.Check(l.Check); err != nil {
		return s, err
	}
	s.Configs = p.Configs
	left, why := refuseIdle(p.Configs)
	if p.Configs[0].Refused != "" {
		return s, errs.New("run", "the lab's "+title, p.Configs[0].Refused, "choose other settings")
	}
	if left == 1 && len(configs) > 1 {
		s.Skipped = cmp.Or(why, "there is nothing to compare with")
		return s, nil
	}
	again := 0
	// Before the lab was stopped, it may have found that steps are too few. It starts with as
	// many as then, so that a stage that had ended comes to the same end.
	if was, err := b.folder(s).Plan(); err == nil && was.Steps > steps && was.Steps <= mostLonger*steps {
		b.lengthen(s, p, was.Steps)
		again = mostAgain
	}
	b.outlook.enter(k, p)
	for ; ; again++ {
		if err := b.runs(ctx, s, p); err != nil {
			return s, err
		}
		longer := p.Longer(s.Results.Lacking())
		switch {
		case longer <= p.Steps, k == Workers: // many are compared: exact intervals of the slow ones are not worth the time
			return s, nil
		case longer > mostLonger*steps || again == mostAgain:
			if !b.warned {
				l.Say(fmt.Sprintf("%d steps are too few to compare %s: --steps %d would do", p.Steps, title, longer))
				b.warned = true
			}
			return s, nil
		}
		l.Say(fmt.Sprintf("%d steps are too few to compare %s: again with %d", p.Steps, title, longer))
		b.outlook.again()
		b.lengthen(s, p, longer)
	}
}

// refuseIdle refuses configurations that would do the same as the first. It returns how
// many are left, and why the first of the others was refused.
func refuseIdle(configs []sweep.Config) (left int, why string) {
	for i := range configs {
		c := &configs[i]
		if i > 0 && c.Refused == "" {
			c.Refused = other(c.Idle, configs[0].Idle)
		}
		if c.Refused == "" {
			left++
		} else if why == "" {
			why = c.Refused
		}
	}
	return left, why
}

// other returns the sentences of one list that another list does not have.
func other(of, than []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(of), func(s string) bool { return slices.Contains(than, s) }), "; ")
}

// lengthen makes the runs of a stage and of the stages after it longer. What was kept makes
// steps shorter, so later stages would have too few steps as well. Runs of accumulation have
// small batches, so they do not lengthen others.
func (b *bench) lengthen(s *Stage, p *sweep.Plan, steps int) {
	if p.Steps = steps; s.Kind != Accumulation {
		b.trial = max(b.trial, steps)
		b.outlook.lengthen(b.trial + b.lab.Warmup)
	}
}

// A stage whose comparison lacks steps, time or windows is measured again. These bound how
// often that happens and how long its runs become: where the load of the host varies,
// windows grow with the runs, and no length is enough.
const (
	mostAgain  = 2
	mostLonger = 5
)

// folder returns where the runs of a stage lie.
func (b *bench) folder(s *Stage) sweep.Folder {
	return sweep.Folder(filepath.Join(b.lab.Dir, s.Folder))
}

// runs does the runs of a stage that its folder does not have yet.
func (b *bench) runs(ctx context.Context, s *Stage, p *sweep.Plan) (err error) {
	l := b.lab
	s.Results, err = p.Measure(ctx, b.folder(s), l.Runner, func(e sweep.Event) {
		e.Name = s.Title + ": " + e.Name
		if len(p.Configs) == 1 {
			e.Name = s.Title
		}
		b.outlook.add(&e, p)
		l.Spent += e.Took
		l.Tell(e)
	})
	if err != nil {
		return err
	}
	if row := &s.Results.Rows[0]; !row.Measured() {
		return errs.New("run", "the lab's "+s.Title, row.Failed, "repair it, and go on with --resume")
	}
	return l.Save() // with Spent, in case the process is killed before the end
}
