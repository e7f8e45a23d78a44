package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dev.gpustall/engine/command/cli"
)

// TestNoHome: without a home nothing is read or written in the root folder. The error says what
// to do, and that works.
func TestNoHome(t *testing.T) {
	data := tiny(t)
	for _, v := range []string{"HOME", cli.StateVariable, cli.CacheVariable} {
		t.Setenv(v, "")
	}
	for _, tt := range []struct {
		says string
		args []string
	}{
		{"name a file with --session", []string{"run", "--device", "cpu", "--data", data, "--steps", "1"}},
		{"name a data set with --data", []string{"run", "--device", "cpu", "--session", filepath.Join(t.TempDir(), "a.gpustall"), "--steps", "1"}},
		{"name a session's file", []string{"report", "latest"}},
		{"name a session's file", []string{"sessions"}},
	} {
		r := gpustall(t, tt.args...)
		if r.code != 1 || !strings.Contains(r.stderr, "neither HOME nor XDG_") || !strings.Contains(r.stderr, tt.says) || strings.Count(strings.TrimSpace(r.stderr), "\n") > 0 {
			t.Errorf("%v: exit %d, %q, want it to say %q", tt.args, r.code, r.stderr, tt.says)
		}
	}
	file := filepath.Join(t.TempDir(), "a.gpustall")
	if r := gpustall(t, "run", "--device", "cpu", "--data", data, "--steps", "1", "--session", file); r.code != 0 {
		t.Errorf("with --session and --data: exit %d, %s", r.code, r.stderr)
	}
	if r := gpustall(t, "report", file); r.code != 0 {
		t.Errorf("report of a file: exit %d, %s", r.code, r.stderr)
	}
	for _, dir := range []string{"/.local", "/.cache"} {
		if _, err := os.Lstat(filepath.Join(dir, "gpustall")); err == nil {
			t.Errorf("%s/gpustall was made", dir)
		}
		if _, err := os.Lstat(filepath.Join(dir, "state", "gpustall")); err == nil {
			t.Errorf("%s/state/gpustall was made", dir)
		}
	}
}
