//go:build unix

package command

import (
	"os"
	"path/filepath"
	"testing"
)

// TestStarting: a session that is about to begin is known until it begins. A file that a killed process left
// does not count.
func TestStarting(t *testing.T) {
	dir := t.TempDir()
	if got := starting(dir); got != "" {
		t.Errorf("an empty folder has %q to come", got)
	}
	first := announce(dir, "20260101-000000-a-torch")
	second := announce(dir, "20260101-000001-b-torch")
	if got := starting(dir); got != "20260101-000001-b-torch" {
		t.Errorf("%q is to come, and not the newest", got)
	}
	second()
	if got := starting(dir); got != "20260101-000000-a-torch" {
		t.Errorf("%q is to come, and not the one that is left", got)
	}
	first()
	first()
	if err := os.WriteFile(filepath.Join(dir, "20260101-000002-c-torch"+startingExt), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := starting(dir); got != "" {
		t.Errorf("%q is to come, and nobody has it locked", got)
	}
	announce(filepath.Join(dir, "gone"), "d")() // harms nobody
}
