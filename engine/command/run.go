package command

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/flags"
	"github.com/spf13/cobra"
)

func newRun(version string) *cobra.Command {
	o := newOptions(version)
	cmd := &cobra.Command{
		Use:        "run",
		SuggestFor: []string{"train"},
		Short:      "Train without a screen: one line a second, or JSON",
		Long: `Train without a screen: one line a second on standard output, or with --json
one object a line, the last one the summary, whatever happens. Both write a
session.

With --paired or --ask-ceiling, and without --epochs and --steps, the run ends
when it has the answer. A training whose loss is no longer a number goes on;
the summary says so, and the exit code is 4.`,
		Example: `  gpustall run --steps 200
  gpustall run --data DIR --num-workers 4 --epochs 1
  gpustall run --paired num_workers=4  # is that faster? ends with the answer`,
		Args: flags.NoArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			o.endless = cmd.Flags().Changed("epochs")
			if err := o.takeUp(cmd.Flags().Changed); err != nil {
				return err
			}
			return o.check(cmd)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return runHeadless(cmd.Context(), o, os.Stdout, os.Stderr) },
	}
	o.addTraining(cmd.Flags())
	o.keep.add(cmd.Flags())
	cmd.Flags().BoolVar(&o.json, "json", false, "print NDJSON that ends in one summary object")
	o.ask.Add(cmd.Flags())
	cmd.Flags().Float64Var(&o.interval, "interval", 1, "seconds between progress lines, 0.05 to 3600")
	return cmd
}

// runHeadless trains and prints. It prints the summary however the run ends. If nobody reads the
// output any more (run | head), the training stops as if by SIGPIPE, but the session is
// completed.
func runHeadless(parent context.Context, o *options, out, log io.Writer) error {
	asks := o.ask.List()
	until := o.epochs == 0 && o.steps == 0 && !o.endless // no flag says when the run ends
	if until && len(asks) == 0 {
		o.epochs = 1
	}
	signal.Ignore(syscall.SIGPIPE)
	ctx, got, stop := cli.UntilSignal(parent, nil)
	defer stop()
	out, log = cli.NewOutlet(ctx, out), cli.NewOutlet(ctx, log)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := o.newRun(ctx, cli.ProgressTo(log))
	if err != nil {
		return errors.Join(got(), err)
	}
	for _, why := range []string{r.device.Why, r.own, r.batch, r.begins} {
		if why != "" {
			_ = cli.Say(log, "%s\n", why)
		}
	}
	var unasked error // the reason why a question could not be asked
	r.tries.Ask(asks, func(err error) {
		if unasked = err; err != nil || until {
			r.answered.Store(err == nil)
			cancel()
		}
	})
	p := printer{of: &r.recording, summarise: r.summarise, opts: o, out: out, log: log, unread: cancel}
	p.start()
	awake := watchStops(r.engine.Suspend, r.recorder)
	err = r.train(ctx)
	awake()
	err = errors.Join(err, unasked)
	p.stop()
	perr := p.summary(err)
	if !o.json {
		_ = cli.Say(out, "%s", r.kept())
	}
	switch sig := got(); {
	case err != nil:
	case errors.Is(perr, syscall.EPIPE):
		err = cli.EndedBy(syscall.SIGPIPE)
	case sig != nil:
		err = sig
	case perr != nil:
		err = perr
	default:
		err = cli.Diverged(r.session.Snapshot(0, 0))
	}
	if err == nil {
		return nil
	}
	return cli.MarkSummarised(err)
}
