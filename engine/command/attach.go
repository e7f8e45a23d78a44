//go:build linux

package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/script"
	"dev.gpustall/engine/command/watch"
	"dev.gpustall/engine/torch/bridge"
	"dev.gpustall/engine/torch/inject"
)

func newAttach(version string) *cobra.Command {
	o := newOptions(version)
	o.interval = 10
	var inside bool
	var how watching
	cmd := &cobra.Command{
		Use:   "attach [flags] PID",
		Short: "Watch a PyTorch training that runs already",
		Long: `Watch a PyTorch training that runs already, as if gpustall torch had started it.
Waits, steps and lines are seen from the next batch on. Settings change from
the next epoch on. The end of this command leaves the training as it was.

Python 3.14 and later lets code be run in it. For earlier versions gdb or lldb
asks the interpreter to run it at its next safe point; that stops the training
for about half a second.`,
		Example: `  gpustall attach 4711
  gpustall attach --plain 4711`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				if n, err := strconv.Atoi(args[0]); err == nil && n > 0 {
					return nil
				}
			}
			return cli.Misuse(errs.New("attach to", "a training", "it takes the number of one process", "pgrep -af python shows which there are"))
		},
		PreRunE: func(cmd *cobra.Command, _ []string) error { return o.check(cmd) },
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := how.check(); err != nil {
				return err
			}
			pid, _ := strconv.Atoi(args[0])
			return runAttach(cmd.Context(), o, pid, how, inside)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	o.addWatching(fs, &how)
	o.addScreen(fs)
	fs.BoolVar(&inside, "inside", false, "the process itself asks for it, and reads here what to run")
	_ = fs.MarkHidden("inside") // there is such a flag
	return cmd
}

// runAttach watches a training that runs already, until that ends or the user leaves it.
func runAttach(parent context.Context, o *options, pid int, how watching, inside bool) error {
	if o.session != "" {
		if err := o.checkSession(); err != nil {
			return err
		}
	}
	target, err := &inject.Target{PID: pid, Args: []string{"notebook"}, UID: os.Getuid(), GID: os.Getgid()}, error(nil)
	var tell io.Writer
	if inside {
		how.plain, tell = true, os.Stdout
	} else if target, err = inject.Find(pid); err != nil {
		return err
	}
	t := &torchRun{options: o, args: target.Args, how: how, gauged: watch.GaugedShown, of: target.String()}
	screen := t.drawn()
	if err := t.prepare(false); err != nil {
		return err
	}
	defer t.bridge.Close()
	defer t.announce()()
	ctx, got, stop := cli.UntilSignal(parent, nil)
	guest, err := bridge.Attach(ctx, t.bridge, target, func() {
		t.lost(fmt.Errorf("%v runs no Python just now, as in a long call of C code or asleep", target), "it is watched once it does")
	}, tell)
	if err != nil {
		stop()
		return cmp.Or(got(), err)
	}
	s := script.Attached(pid, func() bool { return bridge.Runs(pid) }, func() {
		if err := guest.Detach(); err != nil {
			t.lost(err, "the training is not touched by that")
		}
	})
	defer s.PassSignals()()
	stop() // only now, so that no signal is lost between the two
	if err := got(); err != nil {
		s.Finish(os.Stderr)
		return err
	}
	return t.watch(parent, s, screen)
}
