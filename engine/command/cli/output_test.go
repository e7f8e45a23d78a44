package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoFolder: the error names the file that was asked for, and the folder that is missing.
func TestNoFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "a.md")
	o := Output{path}
	want := "write the report to " + path + ": no such file or directory; make its folder, or name another file with --output"
	if err := o.Write("the report", func(io.Writer) error { return nil }); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestWriteFile: a file is whole or as it was, whatever happens during the write.
func TestWriteFile(t *testing.T) {
	full := errors.New("the disk is full")
	for _, tt := range []struct {
		name    string
		was     string // its content before; empty if there is no file
		replace bool
		write   func(w io.Writer) error
		err     error
		want    string
	}{
		{"new", "", false, func(w io.Writer) error { _, err := fmt.Fprint(w, "new"); return err }, nil, "new"},
		{"replaced", "old", true, func(w io.Writer) error { _, err := fmt.Fprint(w, "new"); return err }, nil, "new"},
		{"kept", "old", false, func(w io.Writer) error { _, err := fmt.Fprint(w, "new"); return err }, fs.ErrExist, "old"},
		{"half", "old", true, func(w io.Writer) error { fmt.Fprint(w, strings.Repeat("x", 1<<20)); return full }, full, "old"},
		{"half of a new one", "", false, func(w io.Writer) error { fmt.Fprint(w, strings.Repeat("x", 1<<20)); return full }, full, ""},
		{"panic", "old", true, func(w io.Writer) error { fmt.Fprint(w, "x"); panic(full) }, full, "old"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path, link := filepath.Join(dir, "a.md"), filepath.Join(dir, "link.md")
			if tt.was != "" {
				if err := os.WriteFile(path, []byte(tt.was), 0o640); err != nil {
					t.Fatal(err)
				}
			}
			name := path
			if tt.replace {
				name = link
				if err := os.Symlink("a.md", link); err != nil {
					t.Fatal(err)
				}
			}
			err := func() (err error) {
				defer func() {
					if p := recover(); p != nil {
						err = p.(error)
					}
				}()
				return WriteFile(name, tt.replace, tt.write)
			}()
			if !errors.Is(err, tt.err) {
				t.Errorf("err = %v, want %v", err, tt.err)
			}
			b, _ := os.ReadFile(path)
			if string(b) != tt.want {
				t.Errorf("the file holds %.20q, want %q", b, tt.want)
			}
			if info, err := os.Stat(path); tt.was != "" && (err != nil || info.Mode().Perm() != 0o640) {
				t.Errorf("its mode is %v, %v", info.Mode(), err)
			}
			if parts, _ := filepath.Glob(filepath.Join(dir, "*.part")); len(parts) > 0 {
				t.Errorf("left behind: %v", parts)
			}
		})
	}
	if err := WriteFile(os.DevNull, true, func(w io.Writer) error { _, err := fmt.Fprint(w, "x"); return err }); err != nil {
		t.Errorf("a device: %v", err)
	}
}
