package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/term"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/timer"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/report"
	"dev.gpustall/tui"
)

// runScreen trains with the screen open. Without a terminal it prints lines.
func runScreen(parent context.Context, o *options) error {
	if err := o.check(nil); err != nil {
		return err
	}
	if !drawable() {
		return runHeadless(parent, o, os.Stdout, os.Stderr)
	}
	restore := restorer()
	ctx, got, stop := cli.UntilSignal(parent, restore)
	defer stop()
	defer cli.RestoreAtPanic(restore)
	out, log := cli.NewOutlet(ctx, os.Stdout), cli.NewOutlet(ctx, os.Stderr)
	r, err := o.newRun(ctx, cli.ProgressTo(log))
	if err != nil {
		return errors.Join(got(), err)
	}
	trainCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	trained := make(chan error, 1)
	go func() {
		var err error
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("train: panic: %v\n%s", p, debug.Stack())
			}
			trained <- err
		}()
		err = r.train(trainCtx)
	}()
	screenErr := show(ctx, restore, tui.Options{
		Source: r.session, Control: r.engine, Evaluate: r.engine.Evaluate, FPS: o.fps, ASCII: o.ascii, NoColor: o.noColor, Theme: o.theme,
		Experiments: r.tries, Baseline: r.recorder.Baseline, Note: r.recorder.Note, Foresee: r.foresee,
		Export: func() (string, error) { return exportReport(r.session, baseName(r.file), r.file) },
	})
	cancel()
	trainErr := waitFor(trained, log)
	if hung := r.engine.Hung(); hung != nil {
		_ = cli.Say(log, "gpustall: %v\n", hung)
	}
	sum := r.summarise(trainErr)
	_ = cli.Say(out, "%s", sum.Text())
	_ = cli.Say(out, "%s", r.kept())
	if cli.Exists(r.file) {
		_ = cli.Say(out, "replay   gpustall view %s\n", r.id())
	}
	if err := ended(trainErr, screenErr, got()); err != nil {
		return err
	}
	return cli.Diverged(r.session.Snapshot(0, 0))
}

// drawable reports whether input and output are a terminal that can show a screen. A dumb terminal gets
// lines, and so does a job in the background ("&", "timeout"), which the kernel would stop at the first key.
func drawable() bool {
	return term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("TERM") != "dumb" && inFront()
}

// screenPatience is how long the screen may take to close after ctx has ended. It cannot close if
// nobody reads the terminal.
const screenPatience = 2 * time.Second

// show runs the screen. If it does not close in time, show leaves it behind, restores the
// terminal as far as it can, and returns the end of ctx as the reason. The loss of the terminal
// counts as a hangup.
func show(ctx context.Context, restore func(), o tui.Options) error {
	ctx, gone, stop := whileTerminal(ctx)
	defer stop()
	err := showUntil(ctx, restore, o)
	if gone() {
		return cli.EndedBy(syscall.SIGHUP)
	}
	return err
}

// showUntil runs the screen until ctx ends, and then for screenPatience.
func showUntil(ctx context.Context, restore func(), o tui.Options) error {
	var err error
	if !cli.InTime(ctx, screenPatience, func() { err = tui.Run(ctx, o) }) {
		_ = cli.Briefly(restore)
		return ctx.Err()
	}
	return err
}

// lookAtTerminal is how often whileTerminal looks for the terminal.
const lookAtTerminal = time.Second

// whileTerminal returns a context that ends when the terminal is gone. gone reports whether that
// was the reason. The kernel tells only the first process of the session. So a process that was
// started by make, for example, must look for itself.
func whileTerminal(parent context.Context) (ctx context.Context, gone func() bool, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	var hungUp atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		timer.Repeat(ctx.Done(), lookAtTerminal, func() bool {
			lost := !term.IsTerminal(int(os.Stdout.Fd())) && !signal.Ignored(syscall.SIGHUP)
			if lost {
				hungUp.Store(true)
				cancel()
			}
			return !lost
		})
	}()
	return ctx, hungUp.Load, func() { cancel(); <-done }
}

// waitFor waits for the end of the training and returns its error. The screen is closed by then,
// so if it takes long, waitFor says on w what it waits for.
func waitFor(trained <-chan error, w io.Writer) error {
	pause := time.NewTimer(cli.StopPause)
	defer pause.Stop()
	select {
	case err := <-trained:
		return err
	case <-pause.C:
		fmt.Fprintln(w, "stopping: the step under way is finished first …")
		return <-trained
	}
}

// restorer saves the state of the terminal and returns a function that restores it, for an end
// at which the screen cannot do so.
func restorer() func() {
	in := int(os.Stdin.Fd())
	state, err := term.GetState(in)
	if err != nil {
		return func() {}
	}
	return func() {
		_ = term.Restore(in, state)
		// This turns mouse and bracketed paste off, leaves the alternate screen, and
		// shows the cursor.
		fmt.Print("\x1b[?1006l\x1b[?1003l\x1b[?1002l\x1b[?2004l\x1b[?1049l\x1b[?25h\x1b[0m")
	}
}

// ended returns the one error that matters: a failure before a signal.
func ended(trainErr, screenErr, sig error) error {
	switch {
	case errors.Is(screenErr, tui.ErrInterrupted):
		screenErr, sig = nil, cli.EndedBy(os.Interrupt)
	case errors.Is(screenErr, context.Canceled):
		screenErr = nil
	}
	if err := errors.Join(trainErr, screenErr); err != nil {
		return err
	}
	return sig
}

// exportReport writes the markdown report into the working directory, under an unused name.
func exportReport(s snapshotter, id, session string) (string, error) {
	path := id + ".md"
	for n := 2; cli.Exists(path); n++ {
		path = fmt.Sprintf("%s-%d.md", id, n)
	}
	err := cli.WriteFile(path, false, func(w io.Writer) error {
		return report.Markdown(w, all(s), report.Options{Session: session})
	})
	if err != nil {
		return "", errs.Wrap(err, "export the report to", path, cli.FileHint(err, "start gpustall in a folder that can be written to"))
	}
	if full, err := filepath.Abs(path); err == nil {
		path = full
	}
	return path, nil
}
