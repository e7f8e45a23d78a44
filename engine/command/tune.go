package command

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dev.gpustall/engine/analysis/experiment"
	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

func newTune(version string) *cobra.Command {
	o := newOptions(version)
	var f tuneFlags
	cmd := &cobra.Command{
		Use:   "tune",
		Short: "Find the fastest loader settings and say why",
		Long: `Train, find the fastest settings of the loader, and say why. What each setting
would do is predicted from what the run has shown; the most promising are tried
while it trains, each against the best so far, and every one of them corrects the
prediction. In the end the best settings and those that the run began with are
measured anew. They are kept where they are faster, or as fast with fewer
workers; otherwise the run goes back.

It ends when that is known: the last lines are the flags to keep, and the same as
a line of PyTorch. The knobs' own flags are where it begins. T does the same on
the screen.`,
		Args: noArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			o.endless = cmd.Flags().Changed("epochs")
			q, err := f.question(o)
			if err != nil {
				return err
			}
			o.ask.tune = q
			err = o.check(cmd)
			o.steps = 0 // they are the tune's, not the run's
			return err
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return runHeadless(cmd.Context(), o, os.Stdout, os.Stderr) },
	}
	fs := cmd.Flags()
	o.addTraining(fs)
	fs.Lookup("steps").Usage = "take N steps for it at the most (default: as many as --budget has time for)"
	fs.Lookup("epochs").Usage = "end after N epochs, tuned or not, 0 for no limit"
	f.add(fs)
	fs.BoolVar(&o.json, "json", false, "print NDJSON: progress, decisions, and one summary object at the end")
	fs.Float64Var(&o.interval, "interval", 1, "seconds between progress lines, 0.05 to 3600")
	return cmd
}

// tuneFlags are what a tune may do.
type tuneFlags struct {
	budget  time.Duration
	workers int
	memory  sizeFlag
	knobs   []string
}

func (f *tuneFlags) add(fs *pflag.FlagSet) {
	fs.DurationVar(&f.budget, "budget", experiment.TuneBudget, "training time that it may take at the most")
	fs.IntVar(&f.workers, "max-workers", 0, "try N workers at the most (default: as many as the knob allows)")
	fs.Var(&f.memory, "memory-budget", "host memory that the run may be planned to take, as in 8GiB (default: no limit but the machine's)")
	fs.StringSliceVar(&f.knobs, "knobs", nil, "the knobs to tune, separated by commas: "+knob.Choice(experiment.Tunable)+" (default: all but batch_size, which is another training)")
}

// question is what they ask for.
func (f *tuneFlags) question(o *options) (*experiment.Question, error) {
	for i, name := range f.knobs {
		f.knobs[i] = strings.ReplaceAll(strings.TrimSpace(name), "-", "_")
		if !slices.Contains(experiment.Tunable, f.knobs[i]) {
			return nil, refuse(fmt.Sprintf("--knobs %q", name), "it is no knob that a tune changes", "choose "+knob.Choice(experiment.Tunable))
		}
	}
	switch {
	case f.budget < time.Second:
		return nil, refuse("--budget "+f.budget.String(), "too short to try anything", "choose 1s or more")
	case f.memory > 0 && f.memory < 1<<20: // the unit was forgotten
		return nil, refuse("--memory-budget "+f.memory.String(), "too small for anything", "write it as in 8GiB")
	case f.workers < 0 || f.workers > trace.MaxWorkers:
		return nil, refuse(fmt.Sprintf("--max-workers %d", f.workers), "out of range", fmt.Sprintf("choose 1 to %d", trace.MaxWorkers))
	}
	if n, err := strconv.Atoi(o.knobs.text("num_workers")); err == nil && f.workers > 0 && n > f.workers {
		return nil, refuse(fmt.Sprintf("--max-workers %d", f.workers), fmt.Sprintf("the run begins with %d", n), "lower --num-workers")
	}
	return &experiment.Question{
		Kind: trace.Tune, Budget: f.budget, Steps: int64(o.steps),
		Tuning: &experiment.Tuning{Knobs: f.knobs, Workers: f.workers, Memory: int64(f.memory)},
	}, nil
}

// sizeFlag is a number of bytes.
type sizeFlag int64

func (f *sizeFlag) Type() string { return "SIZE" }

func (f *sizeFlag) String() string {
	if *f == 0 {
		return ""
	}
	return units.Prose.Bytes(int64(*f))
}

func (f *sizeFlag) Set(text string) error {
	n, err := humanize.ParseBytes(text)
	if err != nil || n == 0 || n > 1<<62 {
		return errs.New("set", fmt.Sprintf("a size of %q", text), "not a number of bytes", "write it as 512MiB or 8GB")
	}
	*f = sizeFlag(n)
	return nil
}

// needs is what changes would need of the host's memory in all, in bytes, and why they
// cannot be.
func (r *run) needs(changes []knob.Setting) (host int64, refusal string) {
	text, grave := r.foresee(changes)
	if !grave {
		text = ""
	}
	return r.engine.HostNeed(changes), text
}

// decisionSummary is a decision of a tune as JSON has it.
type decisionSummary struct {
	Type      string             `json:"type,omitempty"` // of a line of its own: "decision"
	T         number             `json:"t_s"`
	Knobs     map[string]string  `json:"knobs"` // that differ from the best so far, or in the end from those at the start
	Verdict   trace.Verdict      `json:"verdict"`
	Predicted *predictionSummary `json:"predicted,omitempty"`
	Rate      number             `json:"samples_per_s"` // null where it was not measured
	Gain      number             `json:"gain"`          // of throughput
	GainLow   number             `json:"gain_low"`
	GainHigh  number             `json:"gain_high"`
	Steps     int64              `json:"steps"`
	Text      string             `json:"text"`
}

func summariseDecision(d *trace.Decision) decisionSummary {
	out := decisionSummary{
		T: seconds(d.T), Knobs: knobMap(d.Knobs), Verdict: d.Verdict, Predicted: summarisePrediction(d.Predicted),
		Rate: none, Gain: none, GainLow: none, GainHigh: none, Steps: d.After.Steps, Text: d.Text,
	}
	if d.After.Active > 0 {
		out.Rate = number(1e9 * float64(d.After.Samples) / float64(d.After.Active))
	}
	if d.Ratio > 0 {
		out.Gain, out.GainLow, out.GainHigh = number(d.Ratio-1), number(d.Lo-1), number(d.Hi-1)
	}
	return out
}
