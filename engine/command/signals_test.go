//go:build unix

package command

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/summary"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
)

// raise sends the test process a signal, for which something must listen.
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

// TestStopPanics: a panic while the process is stopped or continued is noted in the session.
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

// TestRunLeavesNothing: a run in this process, finished or interrupted, leaves no goroutine
// behind (TestMain looks). Its summary and its session say how it ended.
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
		want := cli.ExitOK
		if tt.signal != 0 {
			within(t, "the first progress", out.seen)
			raise(t, tt.signal)
			want = cli.ExitSignal + int(tt.signal)
		}
		if err := <-ended; cli.ExitCode(err) != want {
			t.Errorf("%v: exit code %d, want %d: %v", tt.signal, cli.ExitCode(err), want, err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		var sum summary.Run
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

// TestNohup: a hangup that nohup made us ignore ends nothing.
func TestNohup(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "s.gpustall")
	args := append(strings.Fields("run --steps 200 --session "+file), strings.Fields(starved(t))...)
	cmd := exec.Command("sh", append([]string{"-c", `trap "" HUP; exec "$0" "$@"`, binary}, args...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); !cli.Exists(file) && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestIgnored: signals that were ignored before us are ignored in the script too.
func TestIgnored(t *testing.T) {
	t.Parallel()
	script := "kill -QUIT $$; kill -TERM $$; kill -USR1 $$; kill -INT $$; echo it goes on"
	cmd := exec.Command("sh", "-c", `trap "" QUIT TERM USR1 INT; exec "$0" torch --plain -- sh -c "$1"`, binary, script)
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), "it goes on") {
		t.Errorf("the script printed %q and ended with %v", out, err)
	}
}
