//go:build linux

package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestDetach: a detached command outlives the calling gpustall, which says where the output goes. If the
// command ends at once, that is told with its exit code.
func TestDetach(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	done := filepath.Join(t.TempDir(), "done")
	r := gpustall(t, "torch", "--detach", "--", "sh", "-c", "echo hello; until [ -e "+done+" ]; do sleep 0.1; done; echo by >"+done)
	if r.code != 0 { // else it returned, and nothing lets the command end
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, rest, _ := strings.Cut(r.stdout, "output   ")
	log, rest, _ := strings.Cut(rest, "\n")
	if !strings.HasPrefix(rest, "screen   gpustall view latest\n") {
		t.Errorf("it says %q", r.stdout)
	}
	for text := ""; text != "by\n"; time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("the command did not come to its end: %q", text)
		}
		b, _ := os.ReadFile(done)
		text = string(b)
	}
	if text, err := os.ReadFile(log); err != nil || !strings.HasPrefix(string(text), "hello\n") {
		t.Errorf("the log has %q, %v", text, err)
	}
	if r := gpustall(t, "torch", "--detach", "--", "sh", "-c", "exit 7"); r.code != 7 || !strings.Contains(r.stderr, "it ended at once with exit code 7") {
		t.Errorf("exit %d: %q", r.code, r.stderr)
	}
}
