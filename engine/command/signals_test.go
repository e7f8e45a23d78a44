//go:build unix

package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
)

// raise sends the test process a signal that something listens for.
func raise(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(syscall.Getpid(), s); err != nil {
		t.Fatal(err)
	}
}

func within(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		t.Fatalf("%s did not happen", what)
	}
}

// The first signal ends the context, the second one the process, even where the
// last call before that panics. QUIT and ABRT then leave the stacks.
func TestSecondSignal(t *testing.T) {
	for _, tt := range []struct {
		first, second syscall.Signal
		stacks        bool
	}{
		{syscall.SIGHUP, syscall.SIGTERM, false},
		{syscall.SIGQUIT, syscall.SIGINT, false},
		{syscall.SIGTERM, syscall.SIGQUIT, true},
		{syscall.SIGABRT, syscall.SIGABRT, true},
	} {
		t.Run(fmt.Sprint(tt.first, " ", tt.second), func(t *testing.T) {
			printed := stderrTo(t)
			code, exited := 0, make(chan struct{})
			ctx, got, stop := watchSignals(context.Background(), func() { panic("cannot restore") }, func(c int) { code = c; close(exited) }, time.Hour)
			if err := got(); err != nil {
				t.Errorf("before any signal: %v", err)
			}
			raise(t, tt.first)
			within(t, "the end of the context", ctx.Done())
			raise(t, tt.second)
			within(t, "the exit", exited)
			stop()
			if code != exitSignal+int(tt.second) {
				t.Errorf("exit code %d after %v", code, tt.second)
			}
			err := got()
			var sig signalError
			if !errors.As(err, &sig) || sig.Signal != tt.first {
				t.Errorf("the first signal is lost: %v", err)
			}
			if !strings.Contains(err.Error(), "cannot restore") {
				t.Errorf("the panic is lost: %v", err)
			}
			if text := printed(); strings.Contains(text, "TestSecondSignal") != tt.stacks {
				t.Errorf("stacks are printed: %v, want %v: %.300q", !tt.stacks, tt.stacks, text)
			}
		})
	}
}

// TestSentTwice: what comes twice at once, as timeout(1) sends it, is one signal; some time later it
// is a second one.
func TestSentTwice(t *testing.T) {
	for together, want := range map[time.Duration]syscall.Signal{time.Hour: syscall.SIGHUP, 0: syscall.SIGTERM} {
		code, exited := 0, make(chan struct{})
		ctx, _, stop := watchSignals(context.Background(), nil, func(c int) { code = c; close(exited) }, together)
		raise(t, syscall.SIGTERM)
		within(t, "the end of the context", ctx.Done())
		raise(t, syscall.SIGTERM)
		if together > 0 {
			raise(t, syscall.SIGHUP)
		}
		within(t, "the exit", exited)
		if stop(); code != exitSignal+int(want) {
			t.Errorf("within %v: exit code %d, want that of %v", together, code, want)
		}
	}
}

// stderrTo has a file stand in for standard error during the test; printed reads it.
func stderrTo(t *testing.T) (printed func() string) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	was := os.Stderr
	os.Stderr = f
	t.Cleanup(func() { os.Stderr = was; f.Close() })
	return func() string {
		b, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
}

// A panic while the process is stopped or continued ends up in the session.
func TestStopPanics(t *testing.T) {
	r := trace.NewRecorder(trace.NewClock(), 0)
	s := trace.NewSession(trace.Meta{})
	c := trace.NewCollector(r, s, nil, nil)
	c.Start()
	called := make(chan struct{})
	end := onStop(r, func() { close(called); panic("no clock") })
	raise(t, syscall.SIGTSTP)
	within(t, "the call", called)
	end()
	if err := c.Stop(trace.Outcome{}); err != nil {
		t.Fatal(err)
	}
	notes := s.Snapshot(0, 0).Notes
	if len(notes) != 1 || notes[0].Level != "error" || !strings.Contains(notes[0].Text, "wait for ctrl+z: panic: no clock") {
		t.Errorf("notes %v", notes)
	}
}

// A run in this process leaves no goroutine behind (TestMain looks), finished or
// interrupted, and its summary and its session say how it ended.
func TestRunLeavesNothing(t *testing.T) {
	for _, tt := range []struct {
		steps  int
		status string
		signal syscall.Signal // 0: none
	}{
		{2, "finished", 0},
		{1_000_000, "stopped", syscall.SIGINT},
		{1_000_000, "stopped", syscall.SIGQUIT},
		{1_000_000, "stopped", syscall.SIGABRT},
	} {
		o := newOptions("test")
		o.device, o.json, o.interval, o.steps = "emu:cosmoflow-h100", true, 0.05, tt.steps
		o.seed = 1
		o.session = filepath.Join(t.TempDir(), "x"+store.Ext)
		out := &watched{seen: make(chan struct{})}
		ended := make(chan error, 1)
		go func() { ended <- runHeadless(context.Background(), o, out, new(bytes.Buffer)) }()
		want := exitOK
		if tt.signal != 0 {
			within(t, "the first progress", out.seen)
			raise(t, tt.signal)
			want = exitSignal + int(tt.signal)
		}
		if err := <-ended; exitCode(err) != want {
			t.Errorf("%v: exit code %d, want %d: %v", tt.signal, exitCode(err), want, err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		var sum summary
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &sum); err != nil || sum.Status != tt.status {
			t.Errorf("%v: status %q, want %q (%v)", tt.signal, sum.Status, tt.status, err)
		}
		s, err := store.Open(o.session)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Snapshot(0, 0).Outcome.Status; got != tt.status {
			t.Errorf("%v: the session's status is %q, want %q", tt.signal, got, tt.status)
		}
	}
}

// watched is a buffer that tells when something was written.
type watched struct {
	bytes.Buffer
	seen chan struct{}
	any  bool
}

func (w *watched) Write(b []byte) (int, error) {
	if !w.any {
		w.any = true
		close(w.seen)
	}
	return w.Buffer.Write(b)
}

// TestNohup: a hangup that whoever started us had us ignore ends nothing.
func TestNohup(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.gpustall")
	args := append(strings.Fields("run --steps 200 --session "+file), strings.Fields(starved(t))...)
	cmd := exec.Command("sh", append([]string{"-c", `trap "" HUP; exec "$0" "$@"`, binary}, args...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); !exists(file) && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
