package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"syscall"
	"time"
)

// Endings are the signals that end what runs, summary and session included.
var Endings = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGABRT}

// Heeded are those of them to listen for: what nohup has the process ignore, it goes on ignoring.
func Heeded() []os.Signal {
	return slices.DeleteFunc(slices.Clone(Endings), func(s os.Signal) bool { return s == syscall.SIGHUP && signal.Ignored(s) })
}

// UntilSignal returns a context that the first of the endings cancels. The second one
// calls last, where there is one, and ends the process at once: QUIT and ABRT with the
// stacks of all goroutines, for whoever wants to know why the first was not enough. got
// tells which came, or what went wrong while waiting for one.
func UntilSignal(parent context.Context, last func()) (ctx context.Context, got func() error, stop func()) {
	return watchSignals(parent, last, os.Exit, together)
}

// together is how soon after the first signal the same one again is no second one: timeout(1)
// sends it to the process and then to its group, a wrapper passes on what the terminal sent.
const together = 100 * time.Millisecond

func watchSignals(parent context.Context, last func(), exit func(code int), together time.Duration) (ctx context.Context, got func() error, stop func()) {
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithCancel(parent)
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, Heeded()...)
	first := make(chan error, 2) // a signal, a panic
	quit := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		defer func() {
			if p := recover(); p != nil {
				first <- fmt.Errorf("wait for signals: panic: %v\n%s", p, debug.Stack())
			}
		}()
		var begun os.Signal
		select {
		case begun = <-ch:
			first <- EndedBy(begun)
			cancel()
		case <-quit:
			return
		}
		at := time.Now()
		for {
			select {
			case s := <-ch:
				if s == begun && s != syscall.SIGQUIT && s != syscall.SIGABRT && time.Since(at) < together {
					continue
				}
				if last != nil {
					if err := Briefly(last); err != nil {
						first <- fmt.Errorf("restore the terminal: %w", err)
					}
				}
				if s == syscall.SIGQUIT || s == syscall.SIGABRT {
					_ = Briefly(func() { _ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2) })
				}
				exit(ExitCode(EndedBy(s)))
				return
			case <-quit:
				return
			}
		}
	}()
	got = func() (err error) {
		for {
			select {
			case e := <-first:
				err = errors.Join(err, e)
			default:
				return err
			}
		}
	}
	return ctx, got, func() { signal.Stop(ch); close(quit); <-done }
}

// RestoreAtPanic restores the terminal before a panic ends the process: defer it.
func RestoreAtPanic(restore func()) {
	if p := recover(); p != nil {
		_ = Briefly(restore)
		panic(p)
	}
}

// StopPause is how long a run that ends may take before a word about it.
const StopPause = 500 * time.Millisecond
