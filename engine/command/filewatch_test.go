package command

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSessionRemoved: if the file of the session is removed or replaced during the run, that is
// said once, and the run goes on to its end.
func TestSessionRemoved(t *testing.T) {
	t.Parallel()
	for _, replaced := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "a.gpustall")
		cmd := exec.Command(binary, "run", "--device", "emu:h100", "--steps", "300", "--session", path)
		var out, log bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			if _, err := os.Stat(path + ".ctl"); err == nil {
				break // the file is watched by then
			}
			if time.Now().After(end) {
				_ = cmd.Process.Kill()
				t.Fatalf("no session file: %s", &log)
			}
		}
		time.Sleep(100 * time.Millisecond) // its first writes are done
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
		says := "it was removed during the run"
		if replaced {
			says = "another file took its name during the run"
			if err := os.WriteFile(path, []byte("another"), 0o600); err != nil {
				t.Error(err)
			}
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, &log)
		}
		if strings.Count(log.String(), says) != 1 || !strings.Contains(out.String(), "300 steps") {
			t.Errorf("stderr %q\nstdout %q", &log, &out)
		}
		if got, err := os.ReadFile(path); replaced && string(got) != "another" {
			t.Errorf("the other file was written to: %d bytes, %v", len(got), err)
		}
	}
}
