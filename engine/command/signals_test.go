//go:build unix

package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
// last call before that panics.
func TestSecondSignal(t *testing.T) {
	code, exited := 0, make(chan struct{})
	ctx, got, stop := watchSignals(context.Background(), func() { panic("cannot restore") }, func(c int) { code = c; close(exited) })
	if err := got(); err != nil {
		t.Errorf("before any signal: %v", err)
	}
	raise(t, syscall.SIGHUP)
	within(t, "the end of the context", ctx.Done())
	raise(t, syscall.SIGTERM)
	within(t, "the exit", exited)
	stop()
	if code != 143 {
		t.Errorf("exit code %d, want 143", code)
	}
	err := got()
	var sig signalError
	if !errors.As(err, &sig) || sig.Signal != syscall.SIGHUP {
		t.Errorf("the first signal is lost: %v", err)
	}
	if !strings.Contains(err.Error(), "cannot restore") {
		t.Errorf("the panic is lost: %v", err)
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
// interrupted.
func TestRunLeavesNothing(t *testing.T) {
	for _, tt := range []struct {
		steps  int
		status string
		signal bool
	}{{2, "finished", false}, {1_000_000, "stopped", true}} {
		o := newOptions("test")
		o.device, o.json, o.interval, o.steps = "emu:cosmoflow-h100", true, 0.05, tt.steps
		o.seed = 1
		o.session = filepath.Join(t.TempDir(), "x"+store.Ext)
		out := &watched{seen: make(chan struct{})}
		ended := make(chan error, 1)
		go func() { ended <- runHeadless(context.Background(), o, out, new(bytes.Buffer)) }()
		if tt.signal {
			within(t, "the first progress", out.seen)
			raise(t, syscall.SIGINT)
		}
		err := <-ended
		if code := exitCode(err); tt.signal && code != 130 || !tt.signal && err != nil {
			t.Errorf("%s: exit code %d, %v", tt.status, code, err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		var sum summary
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &sum); err != nil || sum.Status != tt.status {
			t.Errorf("status %q, want %q (%v)", sum.Status, tt.status, err)
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
