package codec

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	stdjpeg "image/jpeg"
	"image/png"
	"os"
	"strings"
	"testing"

	"dev.gpustall/loader"
	"dev.gpustall/loader/codec/jpeg"
)

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
	r := image.Rect(0, 0, 21, 13) // odd, so the last chroma column stands for one pixel
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
			if err := Decode(&s); err != nil {
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

// near compares pixels. For a JPEG the standard library rounds differently than
// libjpeg.
func near(got [3]byte, r, g, b byte, jpeg bool) bool {
	for i, want := range [3]byte{r, g, b} {
		d := int(got[i]) - int(want)
		if d < -1 || d > 1 || (d != 0 && !jpeg) {
			return false
		}
	}
	return true
}

// TestDamaged: an image that cannot be decoded is refused with the reason and a hint.
func TestDamaged(t *testing.T) {
	whole := encodeJPEG(t, gradient(64, 64))
	for _, tt := range []struct {
		name, reason string
		raw          []byte
	}{
		{"jpeg cut off", "truncated", whole[:len(whole)/2]},
		{"gif", "neither a JPEG", []byte("GIF89a not an image at all")},
		{"nothing", "is empty", nil},
		{"png cut off", "not enough pixel data", encodePNG(t, gradient(64, 64))[:100]},
		{"png too large", "dimension overflow", []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x7f\xff\xff\xff\x7f\xff\xff\xff\x08\x02\x00\x00\x00\xa6\x4f\x32\x11")},
		{"bmp cut off", "truncated", []byte("BM")},
		{"tiff cut off", "TIFF", []byte("II*\x00\x08\x00\x00\x00")},
		{"webp animated", "animated WebP", []byte("RIFF\x1e\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00")},
		{"ppm cut off", "EOF", []byte("P6 3 2 255\n12345")},
		{"pgm above its greatest", "8 above the greatest, 7", []byte("P2 2 1 7 3 8")},
		{"pgm too large", "more than the 178956970 allowed", []byte("P5 99999 99999 255\n")},
		{"pgm of nothing", "nothing in it", []byte("P5 0 1 255\n")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := Decode(&loader.Sample{Raw: tt.raw})
			if err == nil || !strings.Contains(err.Error(), tt.reason) {
				t.Fatalf("err = %v, want it to say %q", err, tt.reason)
			}
			if !strings.Contains(Hint(err), "remove the file") {
				t.Errorf("the hint is %q", Hint(err))
			}
		})
	}
}

// BenchmarkDecode decodes an image of ImageNet's usual size.
func BenchmarkDecode(b *testing.B) {
	for name, raw := range map[string][]byte{"jpeg": encodeJPEG(b, gradient(500, 375)), "png": encodePNG(b, gradient(500, 375))} {
		b.Run(name, func(b *testing.B) {
			s := loader.Sample{Raw: raw}
			b.ReportAllocs()
			for b.Loop() {
				if err := Decode(&s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestScans: an image that repeats one scan is refused, and is not left to the standard
// library's decoder.
func TestScans(t *testing.T) {
	b, err := os.ReadFile("testdata/progressivegrey.jpg")
	if err != nil {
		t.Fatal(err)
	}
	from := bytes.Index(b, startOfScan)
	to := from + 2 + bytes.Index(b[from+2:], []byte{0xff, 0xc4}) // the next one's codes
	many := append(b[:to:to], bytes.Repeat(b[from:to], jpeg.MaxScans)...)
	s := loader.Sample{Raw: append(many, b[to:]...)}
	if err := Decode(&s); !errors.Is(err, errScans) || Hint(err) != hintKind {
		t.Errorf("%d bytes: %v", len(s.Raw), err)
	}
}

// TestStandardLibrary: a JPEG of a kind that package jpeg does not know, with subsampled RGB,
// is read by the standard library.
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
	if err := Decode(&s); err != nil || s.W != 53 || s.H != 37 {
		t.Errorf("%d x %d, %v", s.W, s.H, err)
	}
}
