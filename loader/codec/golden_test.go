package codec

import (
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dev.gpustall/loader"
)

// apart is how far an image is from Pillow's.
type apart struct {
	max  int     // of one value
	mean float64 // of all values
}

// TestPillow compares with the pixels that Pillow reads (testdata/make.py): they are equal to
// the bit.
func TestPillow(t *testing.T) {
	goldens, err := filepath.Glob("testdata/*.png")
	if err != nil || len(goldens) < 70 {
		t.Fatalf("%d goldens, %v", len(goldens), err)
	}
	for _, golden := range goldens {
		name := strings.TrimSuffix(golden, ".png")
		t.Run(filepath.Base(name), func(t *testing.T) {
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			s := loader.Sample{Raw: raw}
			if err := Decode(&s); err != nil {
				t.Fatal(err)
			}
			got := compare(t, &s, golden)
			if got.max > 0 {
				t.Errorf("differs from Pillow by at most %d and %.4f on average", got.max, got.mean)
			}
		})
	}
}

// compare returns how far a decoded sample is from the pixels in a PNG.
func compare(t *testing.T, s *loader.Sample, golden string) (a apart) {
	t.Helper()
	f, err := os.Open(golden)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	if m.Bounds() != image.Rect(0, 0, s.W, s.H) || len(s.Pixels) != s.W*s.H*3 {
		t.Fatalf("%d x %d pixels in %d bytes, want %v", s.W, s.H, len(s.Pixels), m.Bounds())
	}
	sum := 0
	for i, v := range s.Pixels {
		r, g, b, _ := m.At(i/3%s.W, i/3/s.W).RGBA()
		d := int(v) - int([3]uint32{r, g, b}[i%3]>>8)
		a.max = max(a.max, d, -d)
		sum += max(d, -d)
	}
	a.mean = float64(sum) / float64(len(s.Pixels))
	return a
}
