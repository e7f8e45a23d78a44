//go:build linux

// Package script runs a command of the user's: it passes signals on, follows the output, and makes
// an error with the right exit code of how the command ended.
package script

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/command/cli"
)

// Script is a command of the user's, in a session of its own, so that each signal comes to it
// once: from us; and without a terminal, of which the screen has the only one, so that asking for a password
// fails and is not waited for. Where it has the terminal it is in our process group, and what is typed there comes to both.
type Script struct {
	cmd  *exec.Cmd
	ours bool          // it is in our process group
	Done chan struct{} // closed when it has ended
	why  error         // how, to be read after done
	Told context.Context
	tell context.CancelFunc
	once sync.Once
}

// Start starts a command. Its output goes to log or, without one, where ours goes.
func Start(args, env []string, log *os.File) (*Script, error) {
	const hint = "check that it can be run: write the command behind --, as in gpustall torch -- python train.py"
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if log != nil {
		cmd.Stdout, cmd.Stderr = log, log
		if os.Getenv("PYTHONUNBUFFERED") == "" { // what it prints is to be seen when it does
			cmd.Env = append(cmd.Env, "PYTHONUNBUFFERED=1")
		}
	}
	typed := term.IsTerminal(int(os.Stdin.Fd()))
	var master *os.File
	if !typed || log == nil {
		cmd.Stdin = os.Stdin
	} else if m, input, err := QuietInput(os.Stdin); err == nil { // beside the screen it must not read the terminal
		defer input.Close()
		cmd.Stdin, master = input, m
	}
	ours := typed && log == nil // another group would be stopped when it reads
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: !ours}
	if err := cmd.Start(); err != nil {
		if master != nil {
			master.Close()
		}
		return nil, notRun{errs.Wrap(err, "run", args[0], hint)}
	}
	s := &Script{cmd: cmd, ours: ours, Done: make(chan struct{})}
	s.Told, s.tell = context.WithCancel(context.Background())
	go func() {
		defer close(s.Done)
		err := cmd.Wait()
		if master != nil {
			master.Close()
		}
		s.why = ending(err, args[0], s.Told.Err() != nil)
	}()
	return s, nil
}

func (s *Script) PID() int { return s.cmd.Process.Pid }

// notRun is the error of a command that could not be, whose exit code is that of a shell.
type notRun struct{ error }

func (e notRun) Unwrap() error { return e.error }

func (e notRun) ExitCode() int {
	if errors.Is(e.error, exec.ErrNotFound) || errors.Is(e.error, os.ErrNotExist) {
		return 127
	}
	return 126
}

// scriptError is the exit code of a script that failed.
type scriptError struct {
	name string
	code int
	by   syscall.Signal // that ended it; 0 where it ended by itself
	told bool           // it was asked to end, and has an exit code of its own for that
}

// crashes are what a script that was ended by a signal may have died of.
var crashes = map[syscall.Signal]string{
	syscall.SIGKILL: ", which the kernel sends where memory runs out: see dmesg",
	syscall.SIGBUS:  ", as where /dev/shm is full",
}

func (e scriptError) Error() string {
	if e.by != 0 {
		return fmt.Sprintf("%s was ended by %s (%v)%s", e.name, unix.SignalName(e.by), e.by, crashes[e.by])
	}
	if e.told {
		return fmt.Sprintf("%s was asked to end, and did with exit code %d", e.name, e.code)
	}
	return fmt.Sprintf("%s ended with exit code %d", e.name, e.code)
}

func (e scriptError) ExitCode() int { return e.code }

func (e scriptError) Asked() bool { return e.told }

// ending makes an error of how a script ended. told is whether we told it to.
func ending(err error, name string, told bool) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return errs.Wrap(err, "wait for", name, "run it again")
	}
	w, ok := exit.Sys().(syscall.WaitStatus)
	switch {
	case !ok || !w.Signaled():
		return scriptError{name: name, code: exit.ExitCode(), told: told}
	case told || slices.Contains(cli.Endings, os.Signal(w.Signal())) && w.Signal() != syscall.SIGABRT: // somebody wanted it to end
		return cli.EndedBy(w.Signal())
	}
	return scriptError{name: name, code: cli.ExitSignal + int(w.Signal()), by: w.Signal()}
}

// Err is how the script ended, or nil while it runs.
func (s *Script) Err() error {
	select {
	case <-s.Done:
		return s.why
	default:
		return nil
	}
}

// PassSignals hands the signals that we get to the script until the returned function
// is called.
func (s *Script) PassSignals() (stop func()) {
	ch := make(chan os.Signal, 4)
	signal.Notify(ch, append([]os.Signal{syscall.SIGUSR1, syscall.SIGUSR2}, cli.Heeded()...)...)
	if s.ours {
		watchSenders(syscall.SIGINT, syscall.SIGQUIT)
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case sig := <-ch:
				n := sig.(syscall.Signal)
				s.signal(n)
				if n != syscall.SIGUSR1 && n != syscall.SIGUSR2 {
					s.tell()
				}
			}
		}
	}()
	return func() {
		s.once.Do(func() { signal.Stop(ch); close(quit); <-done; s.tell() })
	}
}

// signal hands one on. An interrupt goes to all of the script's processes, as it does
// from a terminal; one that was typed is there already.
func (s *Script) signal(n syscall.Signal) {
	if s.ours && (n == syscall.SIGINT || n == syscall.SIGQUIT) && typed(n) {
		return
	}
	if n == syscall.SIGINT {
		s.interrupt()
		return
	}
	_ = s.cmd.Process.Signal(n)
}

// interrupt hands an interrupt to all of the script's processes.
func (s *Script) interrupt() {
	if !s.ours {
		_ = syscall.Kill(-s.PID(), syscall.SIGINT)
		return
	}
	for _, pid := range host.Family(s.PID()) {
		_ = syscall.Kill(pid, syscall.SIGINT)
	}
}

// How long a script that was told to end may take before it is told less kindly: it may be saving a checkpoint.
const (
	interruptPatience = 60 * time.Second
	endPatience       = 30 * time.Second
)

// Finish ends the script, if it still runs, and waits for it.
func (s *Script) Finish(w io.Writer) {
	if s.Told.Err() == nil { // nobody told it yet
		select {
		case <-s.Done:
			return
		default:
			s.tell()
			s.signal(syscall.SIGINT)
		}
	}
	for _, next := range []struct {
		after  time.Duration
		signal syscall.Signal
	}{{cli.StopPause, 0}, {interruptPatience, syscall.SIGTERM}, {endPatience, syscall.SIGKILL}} {
		select {
		case <-s.Done:
			return
		case <-time.After(next.after):
		}
		if next.signal == 0 {
			fmt.Fprintf(w, "stopping: the script was interrupted, waiting up to %v for it (ctrl+c interrupts it again) …\n", interruptPatience)
			continue
		}
		fmt.Fprintf(w, "it did not end in %v: sending %v\n", next.after, next.signal)
		_ = syscall.Kill(-s.PID(), next.signal)
	}
	<-s.Done
}
