package format

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"dev.gpustall/loader/synth"
)

// TestPermission: data that may not be read is not taken for another kind of data. The hint is
// about permissions, whatever the form and whichever folder is closed.
func TestPermission(t *testing.T) {
	root := t.TempDir()
	o := synth.Options{Samples: 20, Test: 10, Seed: 1}
	for _, dir := range []string{root, filepath.Dir(root)} {
		if err := os.Chmod(dir, 0o755); err != nil { // for a user other than root
			t.Fatal(err)
		}
	}
	mk := func(name string, f func(dir string) error) string {
		dir := filepath.Join(root, name)
		if err := f(dir); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	cifar := func(dir string) error { return synth.CIFAR10(t.Context(), dir, o) }
	python := func(dir string) error { return synth.CIFAR10Python(t.Context(), dir, o) }
	images := func(dir string) error { return synth.ImageFolder(t.Context(), dir, o) }
	records := func(dir string) error { return synth.Records(t.Context(), dir, 100, o) }
	archive := func(p string) error { return os.WriteFile(p, []byte("\x1f\x8b"), 0o644) }
	for _, tt := range []struct {
		name string
		make func(dir string) error
		shut string // what cannot be entered or read, below the path
		mode fs.FileMode
	}{
		{"cifar folder", cifar, "", 0},
		{"cifar folder without x", cifar, "", 0o644},
		{"cifar file", cifar, "data_batch_2.bin", 0},
		{"cifar subfolder", func(dir string) error { return python(filepath.Join(dir, "cifar-10-batches-py")) }, "cifar-10-batches-py", 0},
		{"cifar archive", archive, "", 0},
		{"image folder", images, "", 0},
		{"image folder's split", images, "train", 0},
		{"class", images, "train/dots", 0},
		{"records", records, "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := mk(strings.ReplaceAll(tt.name, " ", "-"), tt.make)
			shut := filepath.Join(path, tt.shut)
			if err := os.Chmod(shut, tt.mode); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.Chmod(shut, 0o755) }() // so that it can be removed
			asNobody(t, func() {
				_, _, err := Open(t.Context(), path, Options{})
				if !errors.Is(err, fs.ErrPermission) {
					t.Fatalf("err = %v", err)
				}
				for _, want := range []string{shut, "permission denied", "chmod"} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%q does not say %q", err, want)
					}
				}
				for _, other := range []string{"download", "give a folder", "looked for", "\n"} {
					if strings.Contains(err.Error(), other) {
						t.Errorf("%q says %q", err, other)
					}
				}
			})
		})
	}
}

// asNobody gives root the file permissions of another user while f runs; others
// have their own.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	runtime.LockOSThread() // the user id for files belongs to the thread
	defer runtime.UnlockOSThread()
	if err := syscall.Setfsuid(65534); err != nil {
		t.Skip(err)
	}
	defer func() { _ = syscall.Setfsuid(0) }()
	f()
}
