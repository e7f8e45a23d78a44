package codec

import (
	"bytes"
	"image"
	"os"
	"path/filepath"
	"testing"

	"dev.gpustall/loader"
	"dev.gpustall/loader/codec/jpeg"
)

// TestNative: C and Go agree on every kind of JPEG and every part, damaged or not, refused or
// not.
func TestNative(t *testing.T) {
	if !jpeg.Native() {
		t.Skip("there is no C for this machine")
	}
	names, err := filepath.Glob("testdata/*.jpg")
	if err != nil || len(names) < 20 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	rng := loader.NewRNG(4, 5, 6)
	all := [][]byte{encodeJPEG(t, speckled(1100, 40, &rng)), encodeJPEG(t, speckled(517, 33, &rng))}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	decoded := 0
	for i, b := range all {
		for n := range 60 {
			cut := bytes.Clone(b)
			for range n / 20 {
				cut[rng.IntN(len(cut))] ^= byte(1 << rng.IntN(8))
			}
			if n%20 == 0 && n > 0 {
				cut = cut[:rng.IntN(len(cut))]
			}
			x, y, w, h := rng.IntN(1200), rng.IntN(60), 1+rng.IntN(1200), 1+rng.IntN(60)
			if i > 1 {
				x, y, w, h = x%40, y%40, w%60+1, h%40+1
			}
			if pixels, _ := nativeAgrees(t, cut, image.Rect(x, y, x+w, y+h)); pixels != nil {
				decoded++
			}
		}
	}
	if decoded < 1000 {
		t.Errorf("only %d images were decoded", decoded)
	}
}

// speckled is an image whose blocks have coefficients of all sizes.
func speckled(w, h int, rng *loader.RNG) image.Image {
	m := gradient(w, h)
	for i := range m.Pix {
		if i%4 != 3 && rng.IntN(4) == 0 {
			m.Pix[i] = byte(rng.Uint64())
		}
	}
	return m
}

// nativeAgrees decodes a part with C and without. It takes what of the part lies in the
// image, or all of the image if nothing does. Without pixels the image was refused.
func nativeAgrees(t *testing.T, b []byte, part image.Rectangle) (pixels []byte, of image.Rectangle) {
	t.Helper()
	b = append(make([]byte, 0, len(b)), b...) // with no spare bytes, so that `make asan` finds reads past the end
	var results [2][]byte
	var refused [2]bool
	for i := range results {
		d := decoder{}
		d.Plain = i == 1
		if d.Header(b) != nil || d.Width*d.Height > 1<<20 {
			return nil, of
		}
		if p := d.Part.Intersect(part); !p.Empty() {
			d.Part = p
		}
		if refused[i] = d.Decode() != nil; refused[i] {
			continue
		}
		of = d.Part
		results[i] = make([]byte, 3*d.Part.Dx()*d.Part.Dy())
		d.colours(results[i])
	}
	if refused[0] != refused[1] {
		t.Fatalf("%d bytes: C refuses it: %t, Go: %t", len(b), refused[0], refused[1])
	}
	if !bytes.Equal(results[0], results[1]) {
		t.Fatalf("%d bytes, %v: C makes something else", len(b), part)
	}
	return results[0], of
}

// FuzzNative is TestNative with random input.
func FuzzNative(f *testing.F) {
	names, err := filepath.Glob("testdata/*.jpg")
	if err != nil || len(names) < 20 {
		f.Fatalf("%d files, %v", len(names), err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, uint8(3), uint8(5), uint8(30), uint8(20))
	}
	f.Fuzz(func(t *testing.T, b []byte, x, y, w, h uint8) {
		nativeAgrees(t, b, image.Rect(int(x), int(y), int(x)+int(w), int(y)+int(h)))
	})
}
