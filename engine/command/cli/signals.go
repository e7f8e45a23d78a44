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

// Endings are the signals that end a run, with its summary and session.
var Endings = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGABRT}

// Heeded returns the endings to listen for. One that is ignored stays so, as a hangup by nohup.
func Heeded() []os.Signal {
	return slices.DeleteFunc(slices.Clone(Endings), func(s os.Signal) bool { return signal.Ignored(s) })
}

// UntilSignal returns a context that the first of the endings cancels. The second one calls last,
// unless it is nil, and ends the process at once; QUIT and ABRT print the stacks of all
// goroutines first. got returns the signal that came, or what went wrong. stop ends the watch.
func UntilSignal(parent context.Context, last func()) (ctx context.Context, got func() error, stop func()) {
	return watchSignals(parent, last, os.Exit, together)
}

// together is the time in which a repeated signal counts as the first one. Such repeats are
// common: timeout(1) sends a signal to the process and then to its group, and a wrapper
// passes on what the terminal has sent already.
const together = 100 * time.Millisecond

func watchSignals(parent context.Context, last func(), exit func(code int), together time.Duration) (ctx context.Context, got func() error, stop func()) {
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithCancel(parent)
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, Heeded()...)
	first := make(chan error, 2) // the signal, and a panic of last
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

// RestoreAtPanic restores the terminal if the caller panics. It must be deferred.
func RestoreAtPanic(restore func()) {
	if p := recover(); p != nil {
		_ = Briefly(restore)
		panic(p)
	}
}

// StopPause is how long the end of a run may take before the user is told.
const StopPause = 500 * time.Millisecond
