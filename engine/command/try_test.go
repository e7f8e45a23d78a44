package command

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"dev.gpustall/engine/command/cli"
)

// TestTry: a live run tests settings when another gpustall asks, and keeps them if they are faster.
func TestTry(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes turns with settings for half a minute")
	}
	t.Parallel()
	file := filepath.Join(t.TempDir(), "run.gpustall")
	cmd := exec.Command(binary, "run", "--device", "emu:resnet50-h100", "--inject", "read=3ms", "--batch-size", "8", "--num-workers", "1", "--steps", "1000000", "--session", file)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait()
		if r := gpustall(t, "try", file, "num_workers=2"); r.code != 1 || !strings.Contains(r.stderr, "its run has ended") {
			t.Errorf("after the end: exit %d: %s", r.code, r.stderr)
		}
		if cli.Exists(file + ".ctl") {
			t.Error("the socket stays")
		}
	}()
	for began := time.Now(); !cli.Exists(file + ".ctl"); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > 30*time.Second {
			t.Fatal("the run did not begin")
		}
	}
	for _, c := range []struct{ args, says string }{
		{"num_wrkers=2", "the run has no such knob; choose"}, {"num_workers", "write KNOB=VALUE"}, {"num_workers=many", "not a whole number"},
	} {
		if r := gpustall(t, "try", file, c.args); r.code == 0 || !strings.Contains(r.stderr, c.says) {
			t.Errorf("%s: exit %d: %s", c.args, r.code, r.stderr)
		}
	}
	r := gpustall(t, "try", file, "num_workers=4", "--json")
	if r.code != 0 {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	m := last(t, r.stdout)
	if change, _ := m["throughput"].(map[string]any); m["type"] != "try" || m["kept"] != true || change["ratio"].(float64) < 1.5 {
		t.Errorf("%s", r.stdout)
	}
}
