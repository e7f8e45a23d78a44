//go:build linux

// Package script runs the user's command: it passes signals on, follows the output, and turns the
// end of the command into an error with the right exit code.
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

// Script is a running command of the user's. Beside a screen, the script has a process session of
// its own and no terminal. So a question for a password fails instead of waiting, and the script
// gets each signal once, from us. Without a screen, the script has the terminal and is in our
// process group, so both get what is typed there.
type Script struct {
	cmd  *exec.Cmd
	pid  int
	left func()        // lets go a process that somebody else started; nil for our own
	ours bool          // the script is in our process group
	Done chan struct{} // closed when the script has ended
	why  error         // how it ended; to be read after Done
	Told context.Context
	tell context.CancelFunc
	once sync.Once
}

// Start starts a command. Its output goes to log, or where ours goes if log is nil.
func Start(args, env []string, log *os.File) (*Script, error) {
	const hint = "check that it can be run: write the command behind --, as in gpustall torch -- python train.py"
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if log != nil {
		cmd.Stdout, cmd.Stderr = log, log
		if os.Getenv("PYTHONUNBUFFERED") == "" { // so that its output is seen at once
			cmd.Env = append(cmd.Env, "PYTHONUNBUFFERED=1")
		}
	}
	typed := term.IsTerminal(int(os.Stdin.Fd()))
	var master *os.File
	if !typed || log == nil {
		cmd.Stdin = os.Stdin
	} else if m, input, err := QuietInput(os.Stdin); err == nil { // the screen reads the terminal
		defer input.Close()
		cmd.Stdin, master = input, m
	}
	ours := typed && log == nil // a process of another group is stopped when it reads
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: !ours}
	if err := cmd.Start(); err != nil {
		if master != nil {
			master.Close()
		}
		return nil, notRun{errs.Wrap(err, "run", args[0], hint)}
	}
	s := &Script{cmd: cmd, pid: cmd.Process.Pid, ours: ours, Done: make(chan struct{})}
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

// Attached returns a script that somebody else started. It is never signalled: for us it is over when it no longer runs, or when leave
// has let it go.
func Attached(pid int, runs func() bool, leave func()) *Script {
	s := &Script{pid: pid, Done: make(chan struct{})}
	s.Told, s.tell = context.WithCancel(context.Background())
	gone := make(chan struct{})
	s.left = sync.OnceFunc(func() { leave(); close(gone) })
	go func() {
		defer close(s.Done)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for runs() {
			select {
			case <-gone:
				return
			case <-tick.C:
			}
		}
	}()
	return s
}

// PID returns the number of the script's process.
func (s *Script) PID() int { return s.pid }

// notRun is the error of a command that could not be started. Its exit code is the one that a
// shell would give.
type notRun struct{ error }

func (e notRun) Unwrap() error { return e.error }

func (e notRun) ExitCode() int {
	if errors.Is(e.error, exec.ErrNotFound) || errors.Is(e.error, os.ErrNotExist) {
		return 127
	}
	return 126
}

// scriptError is the error of a script that failed, with its exit code.
type scriptError struct {
	name string
	code int
	by   syscall.Signal // the signal that ended it; 0 if it exited
	told bool           // it was asked to end, and exited with a code of its own
}

// crashes says what may have sent a signal that ended a script.
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

// ending returns the error of a script that ended. told says whether we told it to.
func ending(err error, name string, told bool) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return errs.Wrap(err, "wait for", name, "run it again")
	}
	w, ok := exit.Sys().(syscall.WaitStatus)
	switch {
	case !ok || !w.Signaled():
		return scriptError{name: name, code: exit.ExitCode(), told: told}
	case told || slices.Contains(cli.Endings, os.Signal(w.Signal())) && w.Signal() != syscall.SIGABRT: // somebody asked for the end
		return cli.EndedBy(w.Signal())
	}
	return scriptError{name: name, code: cli.ExitSignal + int(w.Signal()), by: w.Signal()}
}

// Err returns the error with which the script ended, or nil while it runs.
func (s *Script) Err() error {
	select {
	case <-s.Done:
		return s.why
	default:
		return nil
	}
}

// PassSignals passes our signals on to the script until stop is called.
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
				if s.left != nil {
					s.tell()
					s.left()
					continue
				}
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

// signal passes a signal on. An interrupt goes to all processes of the script, as it does from a
// terminal. If it was typed on the terminal that the script shares with us, the script has it
// already.
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

// interrupt sends an interrupt to all processes of the script.
func (s *Script) interrupt() {
	if !s.ours {
		_ = syscall.Kill(-s.PID(), syscall.SIGINT)
		return
	}
	for _, pid := range host.Family(s.PID()) {
		_ = syscall.Kill(pid, syscall.SIGINT)
	}
}

// How long a script may take after an interrupt, and then after TERM, before the next signal: it may
// be saving a checkpoint.
const (
	interruptPatience = 60 * time.Second
	endPatience       = 30 * time.Second
)

// Finish ends the script if it still runs, and waits for it. It tells w what it waits for.
func (s *Script) Finish(w io.Writer) {
	if s.left != nil {
		s.left()
		<-s.Done
		return
	}
	if s.Told.Err() == nil { // nobody has told it to end
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
