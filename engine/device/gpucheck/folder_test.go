package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFolders(t *testing.T) {
	good := filepath.Join(t.TempDir(), "new")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := writable("", filepath.Join(file, "below a file"), good); got != good || err != nil {
		t.Errorf("%q, %v, want %q", got, err, good)
	}
	got, err := scratch(filepath.Join(t.TempDir(), "missing"), good)
	if err != nil || filepath.Dir(got) != good {
		t.Errorf("%q, %v, want a folder in %q", got, err, good)
	}
	for _, try := range []func(...string) (string, error){writable, scratch} {
		if got, err := try("", filepath.Join(file, "below a file")); err == nil {
			t.Errorf("%q where nothing can be made", got)
		}
	}
	if left, _ := os.ReadDir(got); len(left) > 0 {
		t.Errorf("%v was left behind", left)
	}
}

// A result that JSON cannot hold costs itself alone.
func TestSaveNaN(t *testing.T) {
	c, _ := newCheck(t)
	c.report.Parts = []result{{Name: "good", Status: statusOK, Value: 5}, {Name: "bad", Status: statusOK, Value: math.NaN()}}
	if err := c.save(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(c.file)
	if err != nil || !strings.Contains(string(b), `"result": 5`) || !strings.Contains(string(b), "cannot be encoded") {
		t.Errorf("%v: %s", err, b)
	}
}

// What others say in their own process is not this table's to be long with.
func TestShort(t *testing.T) {
	r := result{Name: "part", Why: strings.Repeat("x", 1000) + "\nmore"}
	if s := r.line(); len(s) > 300 || strings.Contains(s, "\n") {
		t.Errorf("%d characters: %q", len(s), s)
	}
}

// Tuned kernels are found again by the next process.
func TestTuned(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	tuned().Set("shape", "tile")
	if v, ok := tuned().Get("shape"); !ok || v != "tile" {
		t.Errorf("%q, %v", v, ok)
	}
}

// GPUSTALL_PYTHON alone is asked when it is set; a link keeps its name.
func TestPythons(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "python")
	if err := os.Symlink("/bin/sh", link); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GPUSTALL_PYTHON", link)
	if got := pythons(); len(got) != 1 || got[0] != link {
		t.Errorf("%q, want %q alone", got, link)
	}
	t.Setenv("GPUSTALL_PYTHON", "")
	t.Setenv("PATH", dir)
	if got := pythons(); len(got) == 0 || got[0] != link {
		t.Errorf("%q, want %q first", got, link)
	}
}
