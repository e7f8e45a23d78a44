package imagefolder

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dev.gpustall/loader"
)

var _ loader.Dataset = (*Dataset)(nil)

// tree writes files; a name that ends in / is a folder, "a -> b" a link.
func tree(t testing.TB, root string, names ...string) {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 2, 2))); err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		var err error
		if link, target, ok := strings.Cut(n, " -> "); ok {
			err = errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(root, link)), 0o755), os.Symlink(target, filepath.Join(root, link)))
		} else if p := filepath.Join(root, n); strings.HasSuffix(n, "/") {
			err = os.MkdirAll(p, 0o755)
		} else {
			err = errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, b.Bytes(), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestFailures: an error of a file names it and says what to do.
func TestFailures(t *testing.T) {
	root := t.TempDir()
	tree(t, root, "c/a.png", "c/b.png")
	d, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.Path(0), []byte("GIF89a not an image at all"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := loader.Sample{Index: 0}
	if err := d.Read(t.Context(), &s); err != nil {
		t.Fatal(err)
	}
	err = d.Decode(&s)
	for _, want := range []string{d.Path(0), "neither a JPEG", "remove the file"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("err = %v, want it to say %q", err, want)
		}
	}
	if err := os.Remove(d.Path(0)); err != nil {
		t.Fatal(err)
	}
	if err := d.Read(t.Context(), &loader.Sample{}); err == nil || !strings.Contains(err.Error(), d.Path(0)) {
		t.Errorf("removed file: err = %v", err)
	}
	if err := d.Read(t.Context(), &loader.Sample{Index: 99}); err == nil {
		t.Error("Read beyond the end succeeds")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Read(ctx, &loader.Sample{Index: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

func BenchmarkRead(b *testing.B) {
	root := b.TempDir()
	tree(b, root, "c/")
	if err := os.WriteFile(filepath.Join(root, "c", "a.jpg"), make([]byte, 16<<10), 0o644); err != nil {
		b.Fatal(err)
	}
	d, err := Open(root)
	if err != nil {
		b.Fatal(err)
	}
	var s loader.Sample
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Read(context.Background(), &s); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(s.Raw)))
}
