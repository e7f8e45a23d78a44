package codec

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dev.gpustall/loader"
)

// FuzzDecode: nothing panics, and what is accepted has the size it claims. Images
// above a million pixels are left out, because of the time and the memory.
func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/*.*")
	if err != nil || len(files) < 60 {
		f.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, ".png") || strings.HasSuffix(name, ".py") { // goldens, their maker
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for i := range kinds {
			if k := &kinds[i]; k.matches(b) {
				if cfg, err := k.config(bytes.NewReader(b)); err == nil && cfg.Width*cfg.Height > 1<<20 {
					return
				}
			}
		}
		s := loader.Sample{Raw: b}
		err := Decode(&s)
		if err == nil && (len(s.Pixels) != s.H*s.W*3 || s.H < 1 || s.W < 1 || s.C != 3) {
			t.Errorf("%d bytes for %d x %d x %d", len(s.Pixels), s.H, s.W, s.C)
		}
		if err != nil && Hint(err) == "" {
			t.Errorf("no hint for %v", err)
		}
	})
}
