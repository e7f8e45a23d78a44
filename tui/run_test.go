//go:build unix

package tui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
	"go.uber.org/goleak"

	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/internal/demo"
)

// helperEnv makes the test binary behave as a program on a terminal.
const helperEnv = "GPUSTALL_TUI_HELPER"

func TestMain(m *testing.M) {
	switch mode := os.Getenv(helperEnv); mode {
	case "":
		goleak.VerifyTestMain(m)
	case "nothing":
		os.Exit(0) // as with --version, only the inits ran
	case "shell":
		os.Exit(helperShell("run"))
	case "shell of a panic":
		os.Exit(helperShell("panic in suspend"))
	default:
		os.Exit(helperScreen(mode))
	}
}

// helperScreen shows a simulated run until it ends in the way that mode says.
func helperScreen(mode string) int {
	start := time.Now()
	run := demo.New(func() int64 { return time.Since(start).Nanoseconds() })
	o := Options{Source: run, Control: run, FPS: 30}
	ctx := context.Background()
	switch mode {
	case "context":
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 700*time.Millisecond)
		defer cancel()
	case "panic":
		o.Source = &panicSource{Run: run}
	case "panic in suspend":
		o.Control = panicControl{run}
	}
	err := Run(ctx, o)
	fmt.Printf("RETURNED %v\n", err)
	switch {
	case errors.Is(err, ErrInterrupted):
		return 130
	case err != nil:
		return 1
	}
	return 0
}

// panicSource panics once the first frames are out.
type panicSource struct {
	*demo.Run
	n int
}

func (s *panicSource) Snapshot(from, to int64) *trace.Snapshot {
	if s.n++; s.n > 12 {
		panic("the source broke")
	}
	return s.Run.Snapshot(from, to)
}

// panicControl panics when it is told that the process is stopped.
type panicControl struct{ *demo.Run }

func (panicControl) Suspend(bool) { panic("the engine broke") }

// helperShell runs the screen as a shell runs a job. It continues the screen when it
// stops, and says so.
func helperShell(mode string) int {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"="+mode)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Foreground: true, Ctty: 0}
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Printf("JOB PID %d\r\n", cmd.Process.Pid)
	for {
		var ws syscall.WaitStatus
		if _, err := syscall.Wait4(cmd.Process.Pid, &ws, syscall.WUNTRACED, nil); err != nil {
			fmt.Println(err)
			return 1
		}
		if !ws.Stopped() {
			return ws.ExitStatus()
		}
		_, _ = io.WriteString(os.Stderr, "JOB STOPPED\r\n")
		time.Sleep(100 * time.Millisecond)
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGCONT)
	}
}

// terminal is a program on a pty whose terminal answers nothing.
type terminal struct {
	t    *testing.T
	cmd  *exec.Cmd
	pty  *os.File
	job  int
	mu   sync.Mutex
	out  bytes.Buffer
	done chan struct{}
}

func start(t *testing.T, mode string, env ...string) *terminal {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), append([]string{helperEnv + "=" + mode, "TERM=xterm-256color", "NO_COLOR="}, env...)...)
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: 120, Rows: 36})
	if err != nil {
		t.Skipf("no pty: %v", err)
	}
	x := &terminal{t: t, cmd: cmd, pty: f, done: make(chan struct{})}
	go func() {
		defer close(x.done)
		buf := make([]byte, 64<<10)
		for {
			n, err := f.Read(buf)
			x.mu.Lock()
			x.out.Write(buf[:n])
			x.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		if x.job > 0 { // the shell's, which outlives it
			_ = syscall.Kill(x.job, syscall.SIGKILL)
		}
		<-x.done
		_ = f.Close()
	})
	return x
}

func (x *terminal) output() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.out.String()
}

// wait waits until the output has all of words, in this order.
func (x *terminal) wait(words ...string) {
	x.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		rest, found := x.output(), true
		for _, w := range words {
			if _, rest, found = strings.Cut(rest, w); !found {
				break
			}
		}
		if found {
			return
		}
		if time.Now().After(end) {
			out := x.output()
			x.t.Fatalf("the terminal never got %q; it got %d bytes, %d times the screen, at the end:\n%q", words, len(out), strings.Count(out, altOn), out[max(0, len(out)-1500):])
		}
	}
}

// exit waits for the program's end and returns its exit code.
func (x *terminal) exit() int {
	x.t.Helper()
	_ = x.cmd.Wait()
	<-x.done
	return x.cmd.ProcessState.ExitCode()
}

const (
	altOn, altOff, cursorOn = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"
)

// restored checks that the program has left the alternate screen and shown the cursor again.
func (x *terminal) restored() {
	x.t.Helper()
	out := x.output()
	if strings.LastIndex(out, altOff) < strings.LastIndex(out, altOn) || strings.LastIndex(out, cursorOn) < strings.LastIndex(out, "\x1b[?25l") {
		x.t.Errorf("the terminal was not restored: %q", out[max(0, len(out)-400):])
	}
}

// TestSilentTerminal: package inits, which run even for --version, send the terminal no query, and the screen
// sends one, for whose answer it does not wait. An answer that says light changes the theme and is no key.
func TestSilentTerminal(t *testing.T) {
	t.Setenv("COLORFGBG", "")
	asks := map[string]int{"nothing": 0, "context": 1}
	for mode, want := range asks {
		x := start(t, mode)
		x.exit()
		if got := strings.Count(x.output(), ansi.RequestBackgroundColor); got != want {
			t.Errorf("%s: the terminal was asked for its background %d times, want %d", mode, got, want)
		}
		for _, query := range []string{"\x1b]10", "\x1b[6n", "\x1b[c", "\x1b[>c"} {
			if strings.Contains(x.output(), query) {
				t.Errorf("%s: the terminal was asked %q", mode, query)
			}
		}
	}
	x := start(t, "run")
	x.wait(altOn, ansi.RequestBackgroundColor)
	_, _ = x.pty.WriteString("\x1b]11;rgb:ffff/ffff/dddd\x1b\\")
	x.wait(altOn, "\x1b[0;38;5;245m╭", "Timeline")
	_, _ = x.pty.WriteString("\x03")
	x.exit()
	x.restored()
}

// TestKeysOnTerminal: ctrl+c is an interrupt; q asks once.
func TestKeysOnTerminal(t *testing.T) {
	x := start(t, "run")
	x.wait(altOn, "Timeline")
	_, _ = x.pty.WriteString("\x03")
	if code := x.exit(); code != 130 {
		t.Errorf("ctrl+c: exit code %d, want 130", code)
	}
	x.restored()

	x = start(t, "run")
	x.wait(altOn, "Timeline")
	_, _ = x.pty.WriteString("q")
	x.wait("Quit?")
	_, _ = x.pty.WriteString("y")
	if code := x.exit(); code != 0 {
		t.Errorf("q y: exit code %d, want 0", code)
	}
	x.restored()
	x.wait(altOff, "RETURNED <nil>")
}

func TestContextEnds(t *testing.T) {
	x := start(t, "context")
	if code := x.exit(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	x.restored()
	x.wait(altOff, "RETURNED context deadline exceeded")
}

func TestPanicRestores(t *testing.T) {
	x := start(t, "panic")
	x.exit()
	x.restored()
	x.wait(altOff, "the source broke", "RETURNED show the screen: ")
}

// TestSuspendPanics: a panic while the process stops ends the screen, and is printed.
func TestSuspendPanics(t *testing.T) {
	x := start(t, "shell of a panic")
	x.wait(altOn, "Timeline")
	_, _ = x.pty.WriteString("\x1a")
	if code := x.exit(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	x.restored()
	x.wait(altOff, "RETURNED show the screen: wait for ctrl+z: panic: the engine broke")
}

// TestSuspend: ctrl+z and TSTP stop the process with the terminal restored, and CONT
// brings the screen back. This works more than once.
func TestSuspend(t *testing.T) {
	x := start(t, "shell")
	x.wait("JOB PID ", "\r\n")
	x.wait(altOn, "Timeline")
	_, pid, _ := strings.Cut(x.output(), "JOB PID ")
	_, _ = fmt.Sscan(pid, &x.job)
	for n := range 2 {
		t.Logf("stop %d", n+1)
		_, _ = x.pty.WriteString("\x1a")
		x.wait(altOff, "JOB STOPPED", altOn, "Timeline")
		x.mu.Lock()
		x.out.Reset()
		x.mu.Unlock()
		x.wait("ms") // frames go on
	}
	_, _ = x.pty.WriteString("\x03")
	if code := x.exit(); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
}

// TestNoShell: if nobody could continue the process, ctrl+z does not stop it.
func TestNoShell(t *testing.T) {
	x := start(t, "run")
	x.wait(altOn, "Timeline")
	_, _ = x.pty.WriteString("\x1a")
	x.wait("nothing to suspend to")
	_, _ = x.pty.WriteString("\x03")
	x.exit()
}

// TestNoColour: with NO_COLOR or on a dumb terminal the screen has bold and reverse, but no colour.
func TestNoColour(t *testing.T) {
	for _, env := range []string{"NO_COLOR=1", "TERM=dumb"} {
		x := start(t, "context", env)
		x.exit()
		out := x.output()
		if !strings.Contains(out, "\x1b[0;1m") || !strings.Contains(out, "Timeline") {
			t.Errorf("%s: no bold on the screen", env)
		}
		for _, colour := range []string{"\x1b[0;3", "\x1b[0;9", "\x1b[0;1;3", ";7;3", ";48;"} {
			if strings.Contains(out, colour) {
				t.Errorf("%s: the screen has %q", env, colour)
			}
		}
	}
}

// TestResize: the screen follows changes of the terminal's size.
func TestResize(t *testing.T) {
	x := start(t, "run")
	x.wait(altOn, "Experiments")
	_ = pty.Setsize(x.pty, &pty.Winsize{Cols: 80, Rows: 24})
	x.wait("Experiments", "util ")
	_ = pty.Setsize(x.pty, &pty.Winsize{Cols: 200, Rows: 50})
	x.wait("util ", "Notes")
	_, _ = x.pty.WriteString("\x03")
	x.exit()
}
