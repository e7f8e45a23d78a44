// Package sweepcmd measures many settings, here or on a cluster (gpustall sweep). It reports on
// the folders of sweeps, and compares them.
package sweepcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/batch/sweep"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/flags"
)

// New returns the command gpustall sweep.
func New(version string) *cobra.Command {
	f := &sweepFlags{version: version}
	cmd := &cobra.Command{
		Use:   "sweep --out DIR [-- COMMAND [ARGS]]",
		Short: "Measure many settings: a grid or a ladder, with table, CSV and pictures",
		Long: `Measure many configurations, each in a process of its own, and say which is
the fastest and how sure that is. A flag with several values is an axis, and
all combinations are measured. A ladder adds settings one by one; a rung
without + starts from the baseline. With --repeat the runs take turns, and the
intervals hold what differs from run to run.

Of a PyTorch training of your own, COMMAND behind --: a setting goes where the
command has its name in braces. Knobs that it does not name are set when the
training has had its first batch, as the screen does: num_workers,
prefetch_factor, pin_memory, in_order, persistent_workers. {run} is a name
that only this run has, as for a folder of checkpoints. After --steps each run
is interrupted, as by ctrl+c.

DIR gets the sessions, results.csv, report.md, report.html and the pictures.
The same command goes on with a sweep that was stopped.`,
		Example: `  gpustall sweep --knob num_workers=0,2,4 --steps 200 --out workers
  gpustall sweep --ladder 'baseline; num_workers=4; +pin_memory; +precision=bf16' --out ladder
  gpustall sweep --knob n=2,4,8 --knob bs=32,64 --out args -- python train.py -j {n} -b {bs}`,
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() == 0 {
				return nil
			}
			return flags.NoArgs(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				if err := f.ofCommand(args, cmd.Flags()); err != nil {
					return err
				}
			}
			return runSweep(cmd.Context(), f, os.Stdout, os.Stderr)
		},
	}
	f.add(cmd.Flags())
	return cmd
}

// runSweep measures what the flags ask for. If a signal ends it, it writes what was measured
// until then.
func runSweep(parent context.Context, f *sweepFlags, out, log io.Writer) error {
	p, err := f.plan()
	if err != nil {
		return err
	}
	folder := sweep.Folder(f.out)
	ctx, got, stop := cli.UntilSignal(parent, nil)
	defer stop()
	_ = cli.Say(log, "%s\n", announce(p))
	results, err := f.measure(ctx, p, folder, out, log)
	if results == nil {
		return errors.Join(got(), err)
	}
	if err != nil && ctx.Err() == nil && results.Done() == 0 {
		return err
	}
	if werr := results.Write(folder, cli.ReplaceFile); werr != nil {
		return errs.Wrap(werr, "write the results of the sweep to", f.out, "free some space: gpustall report writes them again from the sessions")
	}
	if ctx.Err() != nil && cli.ColumnsOf(log) > 0 {
		_ = cli.Say(log, "\n") // below the bar
	}
	_ = cli.Say(out, "\n")
	if err := results.Brief().Markdown(out); err != nil {
		return errs.Wrap(err, "write the results to", "standard output", "gpustall report "+f.out+" writes them again")
	}
	_ = cli.Say(out, "results  %s\nreport   %s\npage     %s\n", folder.Path(sweep.ResultFile), folder.Path(sweep.ReportFile), folder.Path(sweep.PageFile))
	if sig := got(); sig != nil {
		_ = cli.Say(log, "stopped: %s of %s are measured; the same command goes on\n", units.Count(results.Done()), units.Counted(len(p.Order()), "run", "runs"))
		return sig
	}
	return errors.Join(err, results.Err(f.out))
}

// measure does the runs, here or on a cluster. It returns no results if only the script is
// written.
func (f *sweepFlags) measure(ctx context.Context, p *sweep.Plan, folder sweep.Folder, out, log io.Writer) (*sweep.Results, error) {
	switch {
	case f.script:
		return nil, writeScript(p, folder, f.cluster, out)
	case f.slurm:
		err := onCluster(ctx, p, folder, f.cluster, log)
		results, lerr := sweep.Load(folder)
		if lerr != nil {
			return nil, errors.Join(err, lerr)
		}
		return results, err
	}
	return p.Measure(ctx, folder, Run, Teller(out, log))
}

// announce says what will be measured.
func announce(p *sweep.Plan) string {
	extent := fmt.Sprintf("%s and %s of warm-up", units.Counted(p.Steps, "step", "steps"), units.Count(p.Warmup))
	if p.Epochs > 0 {
		extent = units.Counted(p.Epochs, "epoch", "epochs")
	}
	text := fmt.Sprintf("%s, %s of %s each", units.Counted(len(p.Configs), "configuration", "configurations"), units.Counted(p.Repeat, "run", "runs"), extent)
	for _, name := range unfilled(p) {
		text += fmt.Sprintf("\nnote: {%s} in the command stays as it is: --knob %s=VALUE would fill it", name, name)
	}
	for i := range p.Configs {
		c := &p.Configs[i]
		if c.Refused != "" {
			text += fmt.Sprintf("\nleft out: %s: %s", units.Line(c.Name), units.Line(c.Refused))
		}
		for _, idle := range c.Idle {
			text += fmt.Sprintf("\nnote: %s: %s", units.Line(c.Name), units.Line(idle))
		}
	}
	return text
}

// Teller returns a function that writes a line for each run that ends, and draws a bar meanwhile.
func Teller(out, log io.Writer) func(sweep.Event) {
	bar, tty, under := cli.ProgressTo(log), cli.ColumnsOf(log) > 0, ""
	return func(e sweep.Event) {
		if tty && e.Ended && under != "" {
			bar(under, 1, 1) // the next line is written over it
			under = ""
		}
		at := fmt.Sprintf("[%d/%d] %s", e.Done, e.Of, units.Line(e.Name))
		if e.Round > 0 {
			at += fmt.Sprintf(" (run %d)", e.Round+1)
		}
		switch {
		case !e.Ended && tty:
			what := fmt.Sprintf("[%d/%d] %s", e.Done+1, e.Of, units.Line(e.Name))
			if e.Left > 0 {
				what += "  ETA " + units.Clock(int64(e.Left))
			}
			if e.Steps > 0 {
				bar(what, min(e.Step, e.Steps-1), e.Steps)
			}
			under = what
		case !e.Ended:
		case e.Err != nil:
			_ = cli.Say(out, "%s: failed: %s\n", at, units.Line(e.Err.Error()))
		default:
			m := e.Measured
			text := fmt.Sprintf("%s: %s samples/s  util %s  data %s", at, units.Rate(m.SamplesPerSecond), units.Prose.Percent(m.Utilisation),
				units.Prose.Percent(m.DataShare))
			switch {
			case e.Kept:
				text += "  (measured before)"
			case e.Left > 0:
				text += fmt.Sprintf("  (%s, ETA %s)", units.Prose.Time(int64(e.Took)), units.Clock(int64(e.Left)))
			default:
				text += fmt.Sprintf("  (%s)", units.Prose.Time(int64(e.Took)))
			}
			_ = cli.Say(out, "%s\n", text)
		}
	}
}
