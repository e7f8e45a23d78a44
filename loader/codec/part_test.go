package codec

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dev.gpustall/loader"
)

// window is a transform that needs a certain part.
type window loader.Rect

func (w window) Needs(int, int, loader.RNG) loader.Rect { return loader.Rect(w) }

// TestPart: the pixels of a part equal those of the whole, for every kind of file and for
// damaged ones. A file cut off after the part is still refused.
func TestPart(t *testing.T) {
	names, err := filepath.Glob("testdata/*.*")
	if err != nil || len(names) < 60 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	rng := loader.NewRNG(1, 2, 3)
	parts := 0
	for _, name := range names {
		if strings.HasSuffix(name, ".png") || strings.HasSuffix(name, ".py") {
			continue
		}
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 60 {
			cut := raw
			if n >= 40 { // damage somewhere
				cut = bytes.Clone(raw)
				cut[rng.IntN(len(cut))] ^= byte(1 << rng.IntN(8))
			}
			if n >= 50 {
				cut = cut[:rng.IntN(len(cut))]
			}
			whole, part := loader.Sample{Raw: cut}, loader.Sample{Raw: cut}
			err := Decode(&whole)
			if err != nil && n < 40 {
				t.Fatal(err)
			}
			var r loader.Rect
			if err == nil && whole.W*whole.H < 1<<16 {
				r.X, r.Y = rng.IntN(whole.W), rng.IntN(whole.H)
				r.W, r.H = 1+rng.IntN(whole.W-r.X), 1+rng.IntN(whole.H-r.Y)
			} else {
				r = loader.Rect{X: 1, Y: 1, W: 5, H: 5}
			}
			part.Expect(window(r), loader.RNG{})
			if got := Decode(&part); (got == nil) != (err == nil) || got != nil && got.Error() != err.Error() {
				t.Fatalf("%s, %+v of %d x %d: %v, of the whole %v", name, r, whole.W, whole.H, got, err)
			}
			if err != nil || whole.W*whole.H >= 1<<16 {
				continue
			}
			if part.W != whole.W || part.H != whole.H {
				t.Fatalf("%s: %d x %d, want %d x %d", name, part.W, part.H, whole.W, whole.H)
			}
			held := part.Held()
			if held == r && r.W < whole.W {
				parts++
			}
			for y := range r.H {
				got := part.Pixels[((r.Y-held.Y+y)*held.W+r.X-held.X)*3:][:3*r.W]
				want := whole.Pixels[((r.Y+y)*whole.W+r.X)*3:][:3*r.W]
				if !bytes.Equal(got, want) {
					t.Fatalf("%s: row %d of %+v of %d x %d differs", name, y, r, whole.W, whole.H)
				}
			}
		}
	}
	if parts < 500 {
		t.Errorf("only %d parts were decoded as such", parts)
	}
}
