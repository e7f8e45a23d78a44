package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

func newRun(version string) *cobra.Command {
	o := newOptions(version)
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Train without a screen: one line a second, or JSON",
		Long: `Train without a screen. Progress goes to standard output, one line a second;
with --json one JSON object a line, the last one the summary, whatever happens;
of a failure it tells operation, object, reason and hint. Both write a
session file for replay and report.

With --paired or --ask-ceiling, and without --epochs and --steps, the run ends when
it has the answer.

A training whose loss is no longer a number goes on, because what the device
waits for can still be measured; the summary says so, and the exit code is 4.`,
		Args: noArgs,
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
	o.ask.add(cmd.Flags())
	cmd.Flags().Float64Var(&o.interval, "interval", 1, "seconds between progress lines, 0.05 to 3600")
	return cmd
}

// runHeadless trains and prints; the summary is printed on every way out. When
// nobody reads it any more (run | head) the training stops as if by SIGPIPE, but
// its session is completed.
func runHeadless(parent context.Context, o *options, out, log io.Writer) error {
	asks := o.ask.list()
	until := o.epochs == 0 && o.steps == 0 && !o.endless // what ends the run is left to us
	if until && len(asks) == 0 {
		o.epochs = 1
	}
	signal.Ignore(syscall.SIGPIPE)
	ctx, got, stop := untilSignal(parent, nil)
	defer stop()
	out, log = newOutlet(ctx, out), newOutlet(ctx, log)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := o.newRun(ctx, progressTo(log))
	if err != nil {
		return errors.Join(got(), err)
	}
	for _, why := range []string{r.device.why, r.own, r.batch, r.begins} {
		if why != "" {
			_ = say(log, "%s\n", why)
		}
	}
	var unasked error // why a question could not be asked
	r.tries.ask(asks, func(err error) {
		if unasked = err; err != nil || until {
			r.answered.Store(err == nil)
			cancel()
		}
	})
	p := printer{run: r, opts: o, out: out, log: log, unread: cancel}
	p.start()
	awake := watchStops(r.engine.Suspend, r.recorder)
	err = r.train(ctx)
	awake()
	err = errors.Join(err, unasked)
	p.stop()
	perr := p.summary(err)
	if !o.json {
		_ = say(out, "%s", r.kept())
	}
	switch sig := got(); {
	case err != nil:
	case errors.Is(perr, syscall.EPIPE):
		err = signalError{syscall.SIGPIPE}
	case sig != nil:
		err = sig
	case perr != nil:
		err = perr
	default:
		err = diverged(r.session.Snapshot(0, 0))
	}
	if err == nil {
		return nil
	}
	return summarised{err}
}

// printer writes progress on a ticker of its own.
type printer struct {
	run  *run
	opts *options
	out  io.Writer
	log  io.Writer
	quit chan struct{}
	done chan struct{}

	unread  func() // called when nobody reads out any more
	noted   int    // notes already told
	decided int    // decisions of a tune already told
}

func (p *printer) start() {
	p.quit, p.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(p.done)
		defer recoverTo(p.run.recorder, "print progress")
		tick := time.NewTicker(time.Duration(max(p.opts.interval, 0.05) * float64(time.Second)))
		defer tick.Stop()
		for {
			select {
			case <-p.quit:
				return
			case <-tick.C:
				p.progress()
			}
		}
	}()
}

func (p *printer) stop() {
	close(p.quit)
	<-p.done
}

func (p *printer) progress() {
	s := p.run.session.Snapshot(0, 0)
	p.tell(s, nil)
	p.decisions(s)
	g := measure(s, p.opts)
	var err error
	if p.opts.json {
		g.Type = "progress"
		err = p.encode(g)
	} else {
		err = say(p.out, "%s\n", g.line())
	}
	if errors.Is(err, syscall.EPIPE) {
		p.unread()
	}
}

// decisions prints what a tune decided meanwhile.
func (p *printer) decisions(s *trace.Snapshot) {
	for i := range s.Experiments {
		x := &s.Experiments[i]
		for ; x.Kind == trace.Tune && p.decided < len(x.Decisions); p.decided++ {
			d := &x.Decisions[p.decided]
			if !p.opts.json {
				_ = say(p.out, "%-*s%s\n", labelWidth, "tune", units.Line(d.Text))
				continue
			}
			line := summariseDecision(d)
			line.Type = "decision"
			_ = p.encode(line)
		}
	}
}

// tell prints what the run noted meanwhile, but for the error that it ends with.
func (p *printer) tell(s *trace.Snapshot, cause error) {
	told := max(0, len(s.Notes)-(s.Noted-p.noted)) // notes in s that were told already
	p.noted = s.Noted
	for _, n := range s.Notes[told:] {
		if n.Level == "info" || cause != nil && strings.Contains(cause.Error(), n.Text) {
			continue
		}
		_ = say(p.log, "gpustall: %s\n", units.Line(n.Text))
	}
}

func (p *printer) summary(cause error) error {
	last := p.run.session.Snapshot(0, 0)
	p.tell(last, cause)
	p.decisions(last)
	s := summarise(p.run, cause)
	if p.opts.json {
		return p.encode(s)
	}
	return say(p.out, "%s", s.text())
}

func (p *printer) encode(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the progress as JSON: %w", err)
	}
	_, err = p.out.Write(append(b, '\n'))
	return err
}

// kept says where the session is and what can be done with it.
func (r *run) kept() string {
	if !exists(r.file) {
		return fmt.Sprintf("session  %s was removed during the run\n", r.file)
	}
	return fmt.Sprintf("session  %s\nreport   gpustall report %s\n%s", r.file, r.id(), r.keeper.says(r.id()))
}

// id is what names the session on the command line: its file's base name in the
// state directory, its path elsewhere.
func (r *run) id() string {
	if filepath.Dir(r.file) != sessionDir() {
		return r.file
	}
	return baseName(r.file)
}
