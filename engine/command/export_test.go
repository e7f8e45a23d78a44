package command

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestFullDisk: a report that does not fit on the disk is one error, which names the file that
// was asked for.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	session, out := filepath.Join(dir, "s.gpustall"), filepath.Join(dir, "out.md")
	if r := gpustall(t, "run", "--device", "emu:unet3d-h100", "--steps", "2", "--batch-size", "1", "--session", session); r.code != 0 {
		t.Fatal(r.stderr)
	}
	said, err := exec.Command("sh", "-c", `ulimit -f 1; "$@" 2>&1 >/dev/null`, "sh", binary, "report", session, "--output", out).Output()
	text := string(said)
	if err == nil || strings.Count(text, "file too large") != 1 || strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "gpustall: write the report to "+out+": ") || strings.Contains(text, ".part") {
		t.Errorf("%v: %s", err, text)
	}
}
