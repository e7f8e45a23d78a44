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
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/batch/lab"
	"dev.gpustall/engine/batch/sweep"
	"dev.gpustall/engine/report"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
	"dev.gpustall/tui"
)

// runScreen trains with the screen open. Without a terminal it prints lines.
func runScreen(parent context.Context, o *options) error {
	if err := o.check(nil); err != nil {
		return err
	}
	if !drawable() || !term.IsTerminal(int(os.Stdin.Fd())) {
		return runHeadless(parent, o, os.Stdout, os.Stderr)
	}
	restore := restorer()
	ctx, got, stop := untilSignal(parent, restore)
	defer stop()
	defer restoreAtPanic(restore)
	out, log := newOutlet(ctx, os.Stdout), newOutlet(ctx, os.Stderr)
	r, err := o.newRun(ctx, progressTo(log))
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
		_ = say(log, "gpustall: %v\n", hung)
	}
	sum := summarise(r, trainErr)
	_ = say(out, "%s", sum.text())
	_ = say(out, "%s", r.kept())
	if exists(r.file) {
		_ = say(out, "again    gpustall replay %s\n", r.id())
	}
	if err := ended(trainErr, screenErr, got()); err != nil {
		return err
	}
	return diverged(r.session.Snapshot(0, 0))
}

// drawable reports whether standard output is a terminal that a screen can be
// drawn on; a dumb one gets lines.
func drawable() bool {
	return term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("TERM") != "dumb"
}

// screenPatience is how long the screen may take to close once ctx has ended: it
// cannot where nobody reads the terminal.
const screenPatience = 2 * time.Second

// show runs the screen. Where it does not close in time, it is left behind and
// the terminal restored as far as that goes; a signal is then the reason. A terminal that is gone
// is as good as a signal.
func show(ctx context.Context, restore func(), o tui.Options) error {
	ctx, gone, stop := whileTerminal(ctx)
	defer stop()
	err := showUntil(ctx, restore, o)
	if gone() {
		return signalError{syscall.SIGHUP}
	}
	return err
}

func showUntil(ctx context.Context, restore func(), o tui.Options) error {
	var err error
	if !inTime(ctx, screenPatience, func() { err = tui.Run(ctx, o) }) {
		_ = briefly(restore)
		return ctx.Err()
	}
	return err
}

// lookAtTerminal is how often it is asked whether the terminal is still there.
const lookAtTerminal = time.Second

// whileTerminal returns a context that ends when the terminal is gone. The kernel tells the session's
// first process alone of that: whoever was started by another one, by make for instance, is to look
// for itself. gone reports whether that was why.
func whileTerminal(parent context.Context) (ctx context.Context, gone func() bool, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	var hungUp atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(lookAtTerminal)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if !term.IsTerminal(int(os.Stdout.Fd())) && !signal.Ignored(syscall.SIGHUP) {
				hungUp.Store(true)
				cancel()
				return
			}
		}
	}()
	return ctx, hungUp.Load, func() { cancel(); <-done }
}

// stopPause is how long a run that ends may take before a word about it.
const stopPause = 500 * time.Millisecond

// waitFor returns the training's error, and says on w what it waits for where that
// takes long: the screen is closed by then, and there is nothing else to see.
func waitFor(trained <-chan error, w io.Writer) error {
	pause := time.NewTimer(stopPause)
	defer pause.Stop()
	select {
	case err := <-trained:
		return err
	case <-pause.C:
		fmt.Fprintln(w, "stopping: the step under way is finished first …")
		return <-trained
	}
}

// restorer remembers the terminal as it is and returns what brings it back, for
// an end that leaves the screen no time to do so itself.
func restorer() func() {
	in := int(os.Stdin.Fd())
	state, err := term.GetState(in)
	if err != nil {
		return func() {}
	}
	return func() {
		_ = term.Restore(in, state)
		// Off with mouse and bracketed paste, back from the alternate screen, cursor on.
		fmt.Print("\x1b[?1006l\x1b[?1003l\x1b[?1002l\x1b[?2004l\x1b[?1049l\x1b[?25h\x1b[0m")
	}
}

// ended is the one reason worth telling: a failure before a signal.
func ended(trainErr, screenErr, sig error) error {
	switch {
	case errors.Is(screenErr, tui.ErrInterrupted):
		screenErr, sig = nil, signalError{os.Interrupt}
	case errors.Is(screenErr, context.Canceled):
		screenErr = nil
	}
	if err := errors.Join(trainErr, screenErr); err != nil {
		return err
	}
	return sig
}

// snapshotter is what a report is made from.
type snapshotter interface {
	Snapshot(from, to int64) *trace.Snapshot
}

// exportReport writes the markdown report into the working directory, under a
// name that is not taken.
func exportReport(s snapshotter, id, session string) (string, error) {
	path := id + ".md"
	for n := 2; exists(path); n++ {
		path = fmt.Sprintf("%s-%d.md", id, n)
	}
	err := writeFile(path, false, func(w io.Writer) error {
		return report.Markdown(w, all(s), report.Options{Session: session})
	})
	if err != nil {
		return "", errs.Wrap(err, "export the report to", path, hintFile(err, "start gpustall in a folder that can be written to"))
	}
	if full, err := filepath.Abs(path); err == nil {
		path = full
	}
	return path, nil
}

// all is the whole session.
func all(s snapshotter) *trace.Snapshot { return s.Snapshot(0, 1<<62) }

func baseName(path string) string { return strings.TrimSuffix(filepath.Base(path), store.Ext) }

func newReplay(version string) *cobra.Command {
	o := newOptions(version)
	cmd := &cobra.Command{
		Use:     "replay SESSION",
		Short:   "Open the screen from a session file",
		Long:    "Open the screen from a session: a file, a name that gpustall sessions lists, or latest.",
		Args:    exactly(1, "one session"),
		PreRunE: func(cmd *cobra.Command, _ []string) error { return o.check(cmd) },
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := findSession(args[0])
			if err != nil {
				return err
			}
			s, err := store.Open(path)
			if err != nil {
				return err
			}
			if !drawable() {
				complain(os.Stderr, s)
				return report.Markdown(os.Stdout, all(s), report.Options{Session: path})
			}
			restore := restorer()
			ctx, got, stop := untilSignal(cmd.Context(), restore)
			defer stop()
			defer restoreAtPanic(restore)
			err = show(ctx, restore, tui.Options{
				Source: s, FPS: o.fps, ASCII: o.ascii, NoColor: o.noColor, Theme: o.theme, Replay: true,
				Baseline: s.SetBaseline, Ranks: len(s.Snapshot(0, 0).Ranks(0, s.Now())) > 1,
				Export: func() (string, error) { return exportReport(s, baseName(path), path) },
			})
			return ended(nil, err, got())
		},
	}
	o.addScreen(cmd.Flags())
	return cmd
}

// complain says what is wrong with a session's file.
func complain(w io.Writer, s snapshotter) {
	for _, text := range s.Snapshot(0, 0).Damage {
		_ = say(w, "gpustall: %s\n", units.Line(text))
	}
}

func newReport(string) *cobra.Command {
	var format, table string
	var out output
	var rate float64
	cmd := &cobra.Command{
		Use:   "report SESSION|SWEEP",
		Short: "Write the report of a session or a sweep",
		Long: `Write the report of a session: a file, a name that gpustall sessions lists, or
latest. Of a sweep's folder it is made anew from the sessions in it.`,
		Args: exactly(1, "one session"),
		RunE: func(_ *cobra.Command, args []string) error {
			i := slices.Index(report.FormatNames(), format)
			if i < 0 {
				return refuse(fmt.Sprintf("--format %q", format), "there is no format of that name", "choose "+knob.Choice(report.FormatNames()))
			}
			if err := checkTable(format, table); err != nil {
				return err
			}
			if !goodRate(rate) {
				return refuseRate(rate)
			}
			if format == "png" && out.path == "" && columnsOf(os.Stdout) > 0 {
				return refuse("--format png", "a terminal shows no picture", "name a file with --output")
			}
			if sweep.IsFolder(args[0]) {
				return reportSweep(sweep.Folder(args[0]), format, &out)
			}
			if lab.IsFolder(args[0]) {
				return usageError{errs.New("report", args[0], "it is the folder of a lab, whose report is "+lab.ReportFile, "gpustall lab --resume writes that anew; the folders in stages are sweeps")}
			}
			path, err := findSession(args[0])
			if err != nil {
				return err
			}
			s, err := store.Open(path)
			if err != nil {
				return err
			}
			complain(os.Stderr, s)
			export := func(w io.Writer) error {
				snap := all(s)
				if rate > 0 {
					snap.Meta.GPURate = rate
				}
				return report.Formats[i].Write(w, snap, report.Options{Session: path, Table: table})
			}
			return out.write("the report", export, path)
		},
	}
	cmd.Flags().StringVar(&format, "format", report.Formats[0].Name, knob.Choice(report.FormatNames())+" (for chrome://tracing and Perfetto)")
	cmd.Flags().StringVar(&table, "table", "", "the table of --format csv: steps (the default), or ops, the time of each device op by segment")
	out.add(cmd.Flags())
	addRate(cmd.Flags(), &rate)
	return cmd
}

// checkTable refuses a table that --format cannot write.
func checkTable(format, table string) error {
	switch {
	case table == "":
		return nil
	case !slices.Contains(report.Tables, table):
		return refuse(fmt.Sprintf("--table %q", table), "there is no table of that name", "choose "+knob.Choice(report.Tables))
	case format != "csv":
		return refuse("--table "+table, "only --format csv writes one table", "add it, or leave the table out: the markdown report has them all")
	}
	return nil
}
