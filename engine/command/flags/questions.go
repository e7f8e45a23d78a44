package flags

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"dev.gpustall/engine/analysis/experiment"
	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train"
)

// Questions are the flags of what a run without a screen finds out.
type Questions struct {
	paired  pairedFlag
	ceiling bool
	Budget  time.Duration // of the A/B test
	Tune    *experiment.Question
}

// Add adds the flags.
func (q *Questions) Add(fs *pflag.FlagSet) {
	fs.BoolVar(&q.ceiling, "ask-ceiling", false, "find out what fixing data would buy: cached batches are served for some seconds")
	fs.Var(&q.paired, "paired", "find out whether other knobs are faster: num_workers=4 takes turns with the settings in force (A/B test) until that is known; several knobs of one try are separated by commas")
	fs.DurationVar(&q.Budget, "budget", experiment.PairedBudget, "training time that --paired may take at the most")
}

// Check refuses what no experiment can do.
func (q *Questions) Check() error {
	if q.Budget < time.Second {
		return cli.Refuse("--budget "+q.Budget.String(), "too short for a pair", "choose 1s or more")
	}
	return nil
}

// List returns the questions in the order in which they are asked.
func (q *Questions) List() []experiment.Question {
	var out []experiment.Question
	if q.ceiling {
		out = append(out, experiment.Question{Kind: trace.Ceiling})
	}
	if len(q.paired.knobs) > 0 {
		out = append(out, experiment.Question{Kind: trace.Paired, Knobs: q.paired.knobs, Budget: q.Budget})
	}
	if q.Tune != nil {
		out = append(out, *q.Tune)
	}
	return out
}

// pairedFlag is --paired: knobs with the values to test against those in force.
type pairedFlag struct{ knobs []knob.Setting }

func (f *pairedFlag) Type() string { return "KNOB=VALUE" }

func (f *pairedFlag) String() string {
	parts := make([]string, len(f.knobs))
	for i, k := range f.knobs {
		parts[i] = k.Name + "=" + k.Value
	}
	return strings.Join(parts, ",")
}

// Set adds to what was given before.
func (f *pairedFlag) Set(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		name = strings.ReplaceAll(strings.TrimSpace(name), "-", "_")
		if !ok {
			return errs.New("set", fmt.Sprintf("paired=%q", part), "no knob and its value", "write num_workers=4, say")
		}
		probe := train.DefaultKnobs()
		if err := probe.Set(name, strings.TrimSpace(value)); err != nil {
			return err
		}
		f.knobs = append(f.knobs, knob.Setting{Name: name, Value: strings.TrimSpace(value)})
	}
	return nil
}
