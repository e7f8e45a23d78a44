package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// untilSignal returns a context that the first INT, TERM or HUP cancels; the
// second one calls last, where there is one, and ends the process at once. got
// tells which came, or what went wrong while waiting for one.
func untilSignal(parent context.Context, last func()) (ctx context.Context, got func() error, stop func()) {
	return watchSignals(parent, last, os.Exit)
}

func watchSignals(parent context.Context, last func(), exit func(code int)) (ctx context.Context, got func() error, stop func()) {
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithCancel(parent)
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
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
		select {
		case s := <-ch:
			first <- signalError{s}
			cancel()
		case <-quit:
			return
		}
		select {
		case s := <-ch:
			if last != nil {
				if err := briefly(last); err != nil {
					first <- fmt.Errorf("restore the terminal: %w", err)
				}
			}
			n, _ := s.(syscall.Signal)
			exit(exitSignal + int(n))
		case <-quit:
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

// restoreAtCrash restores the terminal before QUIT (ctrl+\) or ABRT end the process
// with its stacks, and before a panic does: defer what it returns.
func restoreAtCrash(restore func()) (end func()) {
	ch, quit, done := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(ch, syscall.SIGQUIT, syscall.SIGABRT)
	go func() {
		defer close(done)
		select {
		case s := <-ch:
			_ = briefly(restore)
			signal.Reset(s)
			if p, err := os.FindProcess(os.Getpid()); err != nil || p.Signal(s) != nil {
				os.Exit(exitRuntime)
			}
		case <-quit:
		}
	}()
	return func() {
		if p := recover(); p != nil {
			_ = briefly(restore)
			panic(p)
		}
		signal.Stop(ch)
		close(quit)
		<-done
	}
}
