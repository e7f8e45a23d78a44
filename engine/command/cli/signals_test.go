//go:build unix

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSecondSignal: the first signal ends the context, the second one the process, even if last
// panics. QUIT and ABRT print the stacks.
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
			arrives(t, tt.first, tt.second)
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
			if code != ExitSignal+int(tt.second) {
				t.Errorf("exit code %d after %v", code, tt.second)
			}
			err := got()
			var sig SignalError
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

// TestSentTwice: a signal that comes twice at once, as timeout(1) sends it, counts once; some
// time later it counts again.
func TestSentTwice(t *testing.T) {
	arrives(t, syscall.SIGHUP, syscall.SIGTERM)
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
		if stop(); code != ExitSignal+int(want) {
			t.Errorf("within %v: exit code %d, want that of %v", together, code, want)
		}
	}
}

// arrives skips the test if this process was started with one of the signals ignored, as by
// nohup. Such a signal stays ignored.
func arrives(t *testing.T, signals ...os.Signal) {
	t.Helper()
	for _, s := range signals {
		if signal.Ignored(s) {
			t.Skipf("the %v signal is ignored here", s)
		}
	}
}

// stderrTo replaces standard error by a file during the test. printed returns its content.
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
