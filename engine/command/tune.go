package command

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dev.gpustall/engine/analysis/experiment"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/flags"
	"dev.gpustall/engine/trace"
)

func newTune(version string) *cobra.Command {
	o := newOptions(version)
	var f tuneFlags
	cmd := &cobra.Command{
		Use:   "tune",
		Short: "Find the fastest loader settings and say why",
		Long: `Train, find the fastest settings of the loader, and say why: the most
promising ones are tried, each against the best so far, and in the end the
best is proved against the start. It is kept where it is faster, or as fast
with fewer workers. The last lines are the flags to keep, and the same as a
line of PyTorch. The knobs' own flags are where it begins. On the screen, T
does the same.`,
		Example: `  gpustall tune
  gpustall tune --data DIR --num-workers 2 --budget 2m
  gpustall tune --max-workers 8 --memory-budget 8GiB`,
		Args: flags.NoArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			o.endless = cmd.Flags().Changed("epochs")
			q, err := f.question(o)
			if err != nil {
				return err
			}
			o.ask.Tune = q
			err = o.check(cmd)
			o.steps = 0 // --steps limits the tune, not the run
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

// tuneFlags are the flags that limit a tune.
type tuneFlags struct {
	budget  time.Duration
	workers int
	memory  flags.Size
	knobs   []string
	dry     bool
}

func (f *tuneFlags) add(fs *pflag.FlagSet) {
	fs.DurationVar(&f.budget, "budget", experiment.TuneBudget, "training time that it may take at the most")
	fs.IntVar(&f.workers, "max-workers", 0, "try N workers at the most (default: as many as the knob allows)")
	fs.Var(&f.memory, "memory-budget", "host memory that the run may be planned to take, as in 8GiB (default: no limit but the machine's)")
	fs.BoolVar(&f.dry, "dry-run", false, "change nothing: only say what would be tried first, and what that is predicted to bring")
	fs.StringSliceVar(&f.knobs, "knobs", nil, "the knobs to tune, separated by commas: "+knob.Choice(experiment.Tunable)+" (default: all but batch_size, which is another training)")
}

// names returns the names of the flags.
func (f *tuneFlags) names() []string {
	return []string{"budget", "max-workers", "memory-budget", "knobs", "dry-run"}
}

// given returns the first of the flags that was given, or "".
func (f *tuneFlags) given(fs *pflag.FlagSet) string {
	for _, name := range f.names() {
		if fs.Changed(name) {
			return name
		}
	}
	return ""
}

// question returns the tune that the flags ask for.
func (f *tuneFlags) question(o *options) (*experiment.Question, error) {
	for i, name := range f.knobs {
		f.knobs[i] = strings.ReplaceAll(strings.TrimSpace(name), "-", "_")
		if !slices.Contains(experiment.Tunable, f.knobs[i]) {
			return nil, cli.Refuse(fmt.Sprintf("--knobs %q", name), "it is no knob that a tune changes", "choose "+knob.Choice(experiment.Tunable))
		}
	}
	switch {
	case f.budget < time.Second:
		return nil, cli.Refuse("--budget "+f.budget.String(), "too short to try anything", "choose 1s or more")
	case f.memory > 0 && f.memory < 1<<20: // the unit is missing
		return nil, cli.Refuse("--memory-budget "+f.memory.String(), "too small for anything", "write it as in 8GiB")
	case f.workers < 0 || f.workers > trace.MaxWorkers:
		return nil, cli.Refuse(fmt.Sprintf("--max-workers %d", f.workers), "out of range", fmt.Sprintf("choose 1 to %d", trace.MaxWorkers))
	}
	if n, err := strconv.Atoi(o.knobs.Text("num_workers")); err == nil && f.workers > 0 && n > f.workers {
		return nil, cli.Refuse(fmt.Sprintf("--max-workers %d", f.workers), fmt.Sprintf("the run begins with %d", n), "lower --num-workers")
	}
	return &experiment.Question{
		Kind: trace.Tune, Budget: f.budget, Steps: int64(o.steps),
		Tuning: &experiment.Tuning{Knobs: f.knobs, Workers: f.workers, Memory: int64(f.memory), Dry: f.dry},
	}, nil
}
