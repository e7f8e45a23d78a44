package command

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/trace/store"
)

// TestNoRegularFile: a pipe, a device or a socket in place of a file is refused by name and not
// read.
func TestNoRegularFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "x"+store.Ext)
	if err := unix.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := images(t)
	if err := os.Symlink(pipe, filepath.Join(dir, "cat", "pipe.jpg")); err != nil {
		t.Fatal(err)
	}
	session := filepath.Join(t.TempDir(), "y"+store.Ext)
	if r := gpustall(t, "run", "--device", "emu:cosmoflow-h100", "--steps", "2", "--session", session); r.code != 0 {
		t.Fatal(r.stderr)
	}
	if err := unix.Mkfifo(session+"-wal", 0o644); err != nil {
		t.Fatal(err)
	}
	train := []string{"run", "--device", "cpu", "--model", "cnn", "--batch-size", "4", "--epochs", "1", "--data"}
	for _, tt := range []struct {
		args []string
		says string
	}{
		{append(train, dir, "--num-workers", "0"), "pipe.jpg"},
		{append(train, dir, "--num-workers", "2"), "pipe.jpg"},
		{append(train, pipe), pipe},
		{append(train, "/dev/zero"), "/dev/zero"},
		{append(train, socket), socket},
		{[]string{"report", pipe}, pipe},
		{[]string{"replay", "/dev/zero"}, "/dev/zero"},
		{[]string{"report", session}, session},
	} {
		if r := gpustall(t, tt.args...); r.code != cli.ExitRuntime || !strings.Contains(r.stderr, tt.says) {
			t.Errorf("%v: exit %d, %s", tt.args, r.code, r.stderr)
		}
	}
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	if err := os.MkdirAll(sessionFolder(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(sessionFolder(), "x"+store.Ext), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := gpustall(t, "sessions"); r.code != 0 || !strings.Contains(r.stdout, "cannot be opened") {
		t.Errorf("sessions: exit %d, %s%s", r.code, r.stdout, r.stderr)
	}
}

func sessionFolder() string {
	return filepath.Join(os.Getenv("XDG_STATE_HOME"), "gpustall", "sessions")
}

// unread returns a terminal that nobody reads and that takes no more text.
func unread(t *testing.T) *os.File {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals here")
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err := errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)); err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	fd = int(tty.Fd()) // once: Fd makes it blocking
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = unix.Write(fd, make([]byte, 4096))
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	return tty
}

// TestUnreadTerminal: TERM ends a run whose terminal nobody reads, and its session is complete.
func TestUnreadTerminal(t *testing.T) {
	t.Parallel()
	for _, screen := range []bool{false, true} {
		t.Run(fmt.Sprintf("screen %v", screen), func(t *testing.T) {
			tty := unread(t)
			file := filepath.Join(t.TempDir(), "x"+store.Ext)
			args := []string{"--device", "emu:cosmoflow-h100", "--steps", "1000000", "--session", file}
			if !screen {
				args = append([]string{"run"}, args...)
			}
			cmd := exec.Command(binary, args...)
			cmd.Env = append(os.Environ(), "TERM=xterm-256color")
			cmd.Stdout, cmd.Stderr = tty, tty
			if screen {
				cmd.Stdin = tty
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() { defer close(ended); _ = cmd.Wait() }()
			for range 10_000 { // steps are in the file: it runs
				if s, err := store.Open(file); err == nil && len(s.Snapshot(0, 0).Recent) > 0 {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			within(t, "the end", ended)
			if code := cmd.ProcessState.ExitCode(); code != cli.ExitSignal+int(syscall.SIGTERM) {
				t.Errorf("exit code %d", code)
			}
			s, err := store.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Snapshot(0, 0).Outcome.Status; got != "stopped" {
				t.Errorf("the session's status is %q", got)
			}
		})
	}
}
