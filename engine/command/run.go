package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func newRun(version string) *cobra.Command {
	o := newOptions(version)
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Train without a screen: one line a second, or JSON",
		Long: `Train without a screen. Progress goes to standard output, one line a second;
with --json one JSON object a line, the last one the summary. Both write a
session file for replay and report.`,
		Args: noArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if o.epochs == 0 && o.steps == 0 {
				o.epochs = 1
			}
			return o.check(cmd)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return runHeadless(cmd.Context(), o, os.Stdout, os.Stderr) },
	}
	o.addTraining(cmd.Flags())
	cmd.Flags().BoolVar(&o.json, "json", false, "print NDJSON that ends in one summary object")
	cmd.Flags().Float64Var(&o.interval, "interval", 1, "seconds between progress lines")
	return cmd
}

// untilSignal returns a context that the first INT, TERM or HUP cancels; the
// second one ends the process at once. got tells which came.
func untilSignal(parent context.Context) (ctx context.Context, got func() error, stop func()) {
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithCancel(parent)
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	first := make(chan os.Signal, 1)
	quit := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case s := <-ch:
			first <- s
			cancel()
		case <-quit:
			return
		}
		select {
		case s := <-ch:
			n, _ := s.(syscall.Signal)
			os.Exit(exitSignal + int(n))
		case <-quit:
		}
	}()
	got = func() error {
		select {
		case s := <-first:
			return signalError{s}
		default:
			return nil
		}
	}
	return ctx, got, func() { signal.Stop(ch); close(quit); <-done; cancel() }
}

// runHeadless trains and prints; the summary is printed on every way out.
func runHeadless(parent context.Context, o *options, out, log io.Writer) error {
	ctx, got, stop := untilSignal(parent)
	defer stop()
	r, err := o.newRun(ctx, progressTo(log))
	if err != nil {
		return errors.Join(got(), err)
	}
	p := printer{run: r, opts: o, out: out}
	p.start()
	err = r.train(ctx)
	p.stop()
	if perr := p.summary(err); err == nil {
		err = perr
	}
	if !o.json {
		fmt.Fprintf(out, "session  %s\nreport   gpustall report %s\n", r.file, r.id())
	}
	if sig := got(); sig != nil && err == nil {
		return sig
	}
	return err
}

// printer writes progress on a ticker of its own.
type printer struct {
	run  *run
	opts *options
	out  io.Writer
	quit chan struct{}
	done chan struct{}
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
	g := measure(p.run.session.Snapshot(0, 0), p.opts)
	if p.opts.json {
		g.Type = "progress"
		p.encode(g)
		return
	}
	fmt.Fprintln(p.out, g.line())
}

func (p *printer) summary(cause error) error {
	s := summarise(p.run, p.opts, cause)
	if p.opts.json {
		return p.encode(s)
	}
	_, err := io.WriteString(p.out, s.text())
	return err
}

func (p *printer) encode(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the progress as JSON: %w", err)
	}
	_, err = p.out.Write(append(b, '\n'))
	return err
}

// id is what names the session on the command line.
func (r *run) id() string { return baseName(r.file) }
