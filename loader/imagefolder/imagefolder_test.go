package imagefolder

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	stdjpeg "image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dev.gpustall/loader"
	"dev.gpustall/loader/imagefolder/jpeg"
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

// gradient is a picture with every kind of colour.
func gradient(w, h int) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			m.SetNRGBA(x, y, color.NRGBA{uint8(x * 255 / w), uint8(y * 255 / h), uint8(255 - (x+y)*255/(w+h)), 255})
		}
	}
	return m
}

func encodeJPEG(t testing.TB, m image.Image) []byte {
	var b bytes.Buffer
	if err := stdjpeg.Encode(&b, m, &stdjpeg.Options{Quality: 90}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func encodePNG(t testing.TB, m image.Image) []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// paint copies the gradient into an image of another kind.
func paint[M interface {
	image.Image
	Set(x, y int, c color.Color)
}](m M) M {
	g := gradient(m.Bounds().Dx(), m.Bounds().Dy())
	for y := range g.Rect.Dy() {
		for x := range g.Rect.Dx() {
			m.Set(x, y, g.At(x, y))
		}
	}
	return m
}

// TestDecode compares each fast path with the standard library's own conversion
// of every pixel.
func TestDecode(t *testing.T) {
	r := image.Rect(0, 0, 21, 13) // odd: the last chroma column stands for one pixel
	pal := color.Palette{color.NRGBA{10, 20, 30, 255}, color.NRGBA{200, 100, 50, 128}, color.White}
	translucent := gradient(9, 5)
	for i := 3; i < len(translucent.Pix); i += 4 {
		translucent.Pix[i] = 77
	}
	for name, b := range map[string][]byte{
		"jpeg one pixel": encodeJPEG(t, gradient(1, 1)),
		"jpeg grey":      encodeJPEG(t, paint(image.NewGray(r))),
		"png rgb":        encodePNG(t, gradient(21, 13)),
		"png rgba":       encodePNG(t, translucent),
		"png grey":       encodePNG(t, paint(image.NewGray(r))),
		"png rgb 16 bit": encodePNG(t, paint(image.NewNRGBA64(r))),
		"png palette":    encodePNG(t, paint(image.NewPaletted(r, pal))),
	} {
		t.Run(name, func(t *testing.T) {
			s := loader.Sample{Raw: b, Pixels: []byte{1, 2, 3}}
			if err := decode(&s); err != nil {
				t.Fatal(err)
			}
			m, _, err := image.Decode(bytes.NewReader(b))
			if err != nil {
				t.Fatal(err)
			}
			if s.C != 3 || s.W != m.Bounds().Dx() || s.H != m.Bounds().Dy() || len(s.Pixels) != s.H*s.W*3 {
				t.Fatalf("%d x %d x %d in %d bytes", s.H, s.W, s.C, len(s.Pixels))
			}
			for y := range s.H {
				for x := range s.W {
					c := color.NRGBAModel.Convert(m.At(x, y)).(color.NRGBA)
					got := [3]byte(s.Pixels[(y*s.W+x)*3:])
					if !near(got, c.R, c.G, c.B, strings.HasPrefix(name, "jpeg")) {
						t.Fatalf("pixel (%d,%d) is %v, want %v", x, y, got, c)
					}
				}
			}
		})
	}
}

// near compares pixels: of a JPEG the standard library rounds otherwise than libjpeg.
func near(got [3]byte, r, g, b byte, jpeg bool) bool {
	for i, want := range [3]byte{r, g, b} {
		d := int(got[i]) - int(want)
		if d < -1 || d > 1 || (d != 0 && !jpeg) {
			return false
		}
	}
	return true
}

func TestDamaged(t *testing.T) {
	root := t.TempDir()
	whole := encodeJPEG(t, gradient(64, 64))
	for name, b := range map[string][]byte{
		"a.jpg":  whole[:len(whole)/2],
		"f.bmp":  []byte("BM"),
		"g.tif":  []byte("II*\x00\x08\x00\x00\x00"),
		"h.webp": []byte("RIFF\x1e\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
		"i.ppm":  []byte("P6 3 2 255\n12345"),
		"j.pgm":  []byte("P2 2 1 7 3 8"),
		"k.pgm":  []byte("P5 99999 99999 255\n"),
		"l.pgm":  []byte("P5 0 1 255\n"),
		"b.png":  []byte("GIF89a not an image at all"),
		"c.jpg":  {},
		"d.png":  encodePNG(t, gradient(64, 64))[:100],
		"e.png":  []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x7f\xff\xff\xff\x7f\xff\xff\xff\x08\x02\x00\x00\x00\xa6\x4f\x32\x11"),
	} {
		tree(t, root, "c/")
		if err := os.WriteFile(filepath.Join(root, "c", name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	reasons := map[string]string{
		"a.jpg": "truncated", "b.png": "neither a JPEG", "c.jpg": "is empty", "d.png": "not enough pixel data", "e.png": "dimension overflow",
		"f.bmp": "truncated", "g.tif": "TIFF", "h.webp": "animated WebP: save it as", "i.ppm": "EOF", "j.pgm": "8 above the greatest, 7",
		"k.pgm": "more than the 178956970 allowed", "l.pgm": "nothing in it",
	}
	d, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	for i := range d.Info().Samples {
		s := loader.Sample{Index: i}
		if err := d.Read(context.Background(), &s); err != nil {
			t.Fatal(err)
		}
		err := d.Decode(&s)
		for _, want := range []string{d.Path(i), "remove the file", reasons[filepath.Base(d.Path(i))]} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: err = %v, want it to say %q", d.Path(i), err, want)
			}
		}
	}
	if err := os.Remove(d.Path(0)); err != nil {
		t.Fatal(err)
	}
	if err := d.Read(context.Background(), &loader.Sample{}); err == nil || !strings.Contains(err.Error(), d.Path(0)) {
		t.Errorf("removed file: err = %v", err)
	}
	if err := d.Read(context.Background(), &loader.Sample{Index: 99}); err == nil {
		t.Error("Read beyond the end succeeds")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := d.Read(ctx, &loader.Sample{Index: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

func BenchmarkRead(b *testing.B) {
	root := b.TempDir()
	tree(b, root, "c/")
	if err := os.WriteFile(filepath.Join(root, "c", "a.jpg"), encodeJPEG(b, gradient(500, 375)), 0o644); err != nil {
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

// BenchmarkDecode decodes an image of ImageNet's usual size.
func BenchmarkDecode(b *testing.B) {
	for name, raw := range map[string][]byte{"jpeg": encodeJPEG(b, gradient(500, 375)), "png": encodePNG(b, gradient(500, 375))} {
		b.Run(name, func(b *testing.B) {
			s := loader.Sample{Raw: raw}
			b.ReportAllocs()
			for b.Loop() {
				if err := decode(&s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestScans: one scan over and over is refused, by this package and by the standard
// library's decoder, which it is not left to.
func TestScans(t *testing.T) {
	b, err := os.ReadFile("testdata/progressivegrey.jpg")
	if err != nil {
		t.Fatal(err)
	}
	from := bytes.Index(b, startOfScan)
	to := from + 2 + bytes.Index(b[from+2:], []byte{0xff, 0xc4}) // the next one's codes
	many := append(b[:to:to], bytes.Repeat(b[from:to], jpeg.MaxScans)...)
	s := loader.Sample{Raw: append(many, b[to:]...)}
	if err := decode(&s); !errors.Is(err, errScans) || mend(err) != mendKind {
		t.Errorf("%d bytes: %v", len(s.Raw), err)
	}
}

// TestStandardLibrary: a JPEG of a kind that package jpeg does not know is read all
// the same: one with subsampled RGB.
func TestStandardLibrary(t *testing.T) {
	b, err := os.ReadFile("testdata/jpeg422.jpg")
	if err != nil {
		t.Fatal(err)
	}
	b = append(b[:2:2], b[20:]...) // without the JFIF segment
	frame, scan := bytes.Index(b, []byte{0xff, 0xc0}), bytes.Index(b, []byte{0xff, 0xda})
	for i, id := range []byte("RGB") {
		b[frame+10+3*i], b[scan+5+2*i] = id, id
	}
	s := loader.Sample{Raw: b}
	if handled, _ := decodeJPEG(&s); handled {
		t.Fatal("it is known")
	}
	if err := decode(&s); err != nil || s.W != 53 || s.H != 37 {
		t.Errorf("%d x %d, %v", s.W, s.H, err)
	}
}
