//go:build linux

package script

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"dev.gpustall/engine/command/cli"
	"golang.org/x/sys/unix"
)

// TestScript: the end of a script becomes our exit code, and the script gets our signals.
func TestScript(t *testing.T) {
	start := func(text string) (*Script, string) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "log")
		log, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { log.Close() })
		s, err := Start([]string{"sh", "-c", text}, append(os.Environ(), "GREETING=hello"), log)
		if err != nil {
			t.Fatal(err)
		}
		return s, path
	}
	s, log := start("echo $GREETING; echo there >&2; exit 7")
	<-s.Done
	if text, err := os.ReadFile(log); err != nil || string(text) != "hello\nthere\n" {
		t.Errorf("the log has %q, %v", text, err)
	}
	if cli.ExitCode(s.Err()) != 7 || cli.StatusOf(s.Err()) != "failed" {
		t.Errorf("%v: exit code %d", s.Err(), cli.ExitCode(s.Err()))
	}
	s, _ = start("kill -9 $$")
	<-s.Done
	if cli.ExitCode(s.Err()) != cli.ExitSignal+9 || errors.As(s.Err(), new(cli.SignalError)) || !strings.Contains(s.Err().Error(), "sh was ended by SIGKILL (killed), which the kernel sends") {
		t.Errorf("%v: exit code %d", s.Err(), cli.ExitCode(s.Err()))
	}
	s, _ = start("kill -15 $$")
	<-s.Done
	if cli.ExitCode(s.Err()) != cli.ExitSignal+15 || !errors.As(s.Err(), new(cli.SignalError)) {
		t.Errorf("%v: exit code %d", s.Err(), cli.ExitCode(s.Err()))
	}
	s, log = start(`trap 'echo told; exit 3' TERM; echo ready; while :; do sleep 0.01; done`)
	stop := s.PassSignals()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if text, _ := os.ReadFile(log); strings.Contains(string(text), "ready") {
			break
		}
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-s.Done
	<-s.Told.Done()
	stop()
	if text, _ := os.ReadFile(log); cli.ExitCode(s.Err()) != 3 || cli.StatusOf(s.Err()) != "stopped" || !strings.Contains(string(text), "told") {
		t.Errorf("%v, exit code %d, %q", s.Err(), cli.ExitCode(s.Err()), text)
	}
	// A script that shares the terminal gets what is typed there by itself.
	s, log = start(`trap 'echo told; exit 3' INT; echo ready; while :; do sleep 0.01; done`)
	s.ours = true
	stop = s.PassSignals()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if text, _ := os.ReadFile(log); strings.Contains(string(text), "ready") {
			break
		}
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	<-s.Told.Done()
	if typed(syscall.SIGINT) {
		t.Log("without C nobody knows who sent a signal")
		_ = s.cmd.Process.Signal(syscall.SIGINT)
	}
	<-s.Done
	stop()
	if text, _ := os.ReadFile(log); cli.ExitCode(s.Err()) != 3 || !strings.Contains(string(text), "told") {
		t.Errorf("interrupted: %v, exit code %d, %q", s.Err(), cli.ExitCode(s.Err()), text)
	}
	if _, err := Start([]string{"/nowhere/python"}, nil, nil); err == nil || errors.As(err, new(scriptError)) {
		t.Errorf("a script that is not there: %v", err)
	}
}

// TestNotRun: a command that cannot be started has the exit code that a shell gives it.
func TestNotRun(t *testing.T) {
	for name, want := range map[string]int{"no-such-command": 127, filepath.Join(t.TempDir(), "nothing"): 127, t.TempDir(): 126} {
		_, err := Start([]string{name}, nil, nil)
		if err == nil || cli.ExitCode(err) != want {
			t.Errorf("%s: %v, exit code %d, want %d", name, err, cli.ExitCode(err), want)
		}
	}
}

// TestOwnSession: beside the screen a script has no terminal to wait for.
func TestOwnSession(t *testing.T) {
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s, err := Start([]string{"sh", "-c", "read x </dev/tty || exit 5"}, os.Environ(), log)
	if err != nil {
		t.Fatal(err)
	}
	if sid, err := unix.Getsid(s.PID()); err == nil && sid != s.PID() {
		t.Errorf("the script is in session %d, and not its own %d", sid, s.PID())
	}
	<-s.Done
	if cli.ExitCode(s.Err()) == 0 {
		t.Error("it has read the terminal")
	}
}

// TestQuietInput: beside the screen a script can ask for the size of its terminal, and reads the
// end of the file.
func TestQuietInput(t *testing.T) {
	master, input, err := QuietInput(os.Stdin)
	if err != nil {
		t.Skipf("no pseudo-terminal: %v", err)
	}
	defer master.Close()
	defer input.Close()
	if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 36, Col: 120}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "stty size; read x || echo end; read x || echo end")
	cmd.Stdin = input
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "36 120\nend\nend\n" {
		t.Errorf("%q, %v", out, err)
	}
}
