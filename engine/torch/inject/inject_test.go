//go:build linux

package inject

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFind: what is no running Python process is refused, and the reason is said.
func TestFind(t *testing.T) {
	sleeps := exec.Command("sleep", "30")
	if err := sleeps.Start(); err != nil {
		t.Skip(err)
	}
	defer sleeps.Wait()
	defer sleeps.Process.Kill()
	for pid, says := range map[int]string{1 << 22: "there is no such process", os.Getpid(): "it is no Python", sleeps.Process.Pid: "it is no Python"} {
		if _, err := Find(pid); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("process %d: %v, want %q", pid, err, says)
		}
	}
	_ = sleeps.Process.Signal(syscall.SIGSTOP)
	for range 100 {
		if _, err := Find(sleeps.Process.Pid); err != nil && strings.Contains(err.Error(), "it is stopped") {
			return
		}
	}
	t.Error("a stopped process is not refused")
}

// TestGoesOn: what a debugger left stopped goes on.
func TestGoesOn(t *testing.T) {
	sleeps := exec.Command("sleep", "30")
	if err := sleeps.Start(); err != nil {
		t.Skip(err)
	}
	defer sleeps.Wait()
	defer sleeps.Process.Kill()
	_ = sleeps.Process.Signal(syscall.SIGSTOP)
	(&Target{PID: sleeps.Process.Pid}).goesOn()
	if _, err := Find(sleeps.Process.Pid); err == nil || strings.Contains(err.Error(), "it is stopped") {
		t.Errorf("%v", err)
	}
}

// TestAsked: what a debugger prints tells whether the interpreter was asked.
func TestAsked(t *testing.T) {
	for text, want := range map[string]bool{"$1 = 0\n": true, "(lldb) x\n(int) $0 = 0\n": true, "$1 = -1\n": false, "ptrace: Operation not permitted.": false} {
		if got := asked.MatchString(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

// TestOutput: a debugger that outlives gpustall may use a core for as long as gpustall would wait for it.
func TestOutput(t *testing.T) {
	text, err := output(context.Background(), "sh", "-c", "sleep 0.5; ulimit -t")
	if want := fmt.Sprintln(int(asks / time.Second)); err != nil || string(text) != want {
		t.Errorf("%q, %v, want %q", text, err, want)
	}
}
