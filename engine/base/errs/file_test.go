package errs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestHint: the operating system's errors, as package os wraps them.
func TestHint(t *testing.T) {
	dir := t.TempDir()
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink("loop", loop); err != nil {
		t.Fatal(err)
	}
	_, looped := os.Open(loop)
	_, missing := os.Open(filepath.Join(dir, "none"))
	for err, want := range map[error]string{
		looped:  "remove the link",
		missing: "something else",
		fmt.Errorf("wrapped: %w", &fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}): "chmod",
		fmt.Errorf("wrapped: %w", &fs.PathError{Op: "open", Path: "x", Err: syscall.EMFILE}): "ulimit -n",
		fmt.Errorf("wrapped: %w", &fs.PathError{Op: "read", Path: "x", Err: syscall.EIO}):    "check the disk",
	} {
		if got := Hint(err, "something else"); !strings.Contains(got, want) {
			t.Errorf("%v: %q does not say %q", err, got, want)
		}
	}
}

// TestFile: the path is said once, and the reason is kept.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none")
	_, err := os.Open(path)
	err = File(err, "open", path, "check the path")
	if want := "open " + path + ": no such file or directory; check the path"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error("the reason is lost")
	}
}

// TestFileKnown: an error that is told already is not told twice.
func TestFileKnown(t *testing.T) {
	inner := New("find", "s3://b/k", "there is no such object", "check the address")
	if got := File(inner, "open data", "s3://b/k", "check the path").Error(); got != inner.Error() {
		t.Error(got)
	}
}

func TestPath(t *testing.T) {
	for path, want := range map[string]string{
		"a/b c/ü.jpg": "a/b c/ü.jpg", "a\nb": `"a\nb"`, "caf\xe9.jpg": `"caf\xe9.jpg"`, "\x1b[2J": `"\x1b[2J"`, "": "",
	} {
		if got := Path(path); got != want {
			t.Errorf("Path(%q) = %s, want %s", path, got, want)
		}
	}
}
