package imagefolder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

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

// TestListing follows what torchvision's ImageFolder lists for the same trees.
func TestListing(t *testing.T) {
	tests := []struct {
		name    string
		tree    []string
		open    func(string) (*Dataset, error)
		classes []string
		files   []string // path:label
	}{
		{"sorted", []string{"dog/b.png", "dog/a.jpg", "cat/z.JPEG", "cat/readme.txt", "notes.txt"}, Open,
			[]string{"cat", "dog"}, []string{"cat/z.JPEG:0", "dog/a.jpg:1", "dog/b.png:1"}},
		{"bytes order, not letters", []string{"b/1.png", "B/1.png", "a/10.png", "a/2.png"}, Open,
			[]string{"B", "a", "b"}, []string{"B/1.png:0", "a/10.png:1", "a/2.png:1", "b/1.png:2"}},
		{"nested", []string{"c/x.png", "c/sub/y.png", "c/sub/deep/z.png", "c/a/w.png"}, Open,
			[]string{"c"}, []string{"c/x.png:0", "c/a/w.png:0", "c/sub/y.png:0", "c/sub/deep/z.png:0"}},
		{"hidden files and folders count", []string{".h/1.png", "c/.x.png"}, Open,
			[]string{".h", "c"}, []string{".h/1.png:0", "c/.x.png:1"}},
		{"links", []string{"store/a.png", "root/c/l.png -> ../../store/a.png", "root/d -> ../store"}, func(p string) (*Dataset, error) { return Open(filepath.Join(p, "root")) },
			[]string{"c", "d"}, []string{"c/l.png:0", "d/a.png:1"}},
		{"a link round and round", []string{"c/a.png", "c/again -> ."}, Open,
			[]string{"c"}, []string{"c/a.png:0"}},
		{"a folder named like an image", []string{"c/a.png/b.jpg", "c/d.jpg/"}, Open,
			[]string{"c"}, []string{"c/a.png/b.jpg:0"}},
		{"every extension", []string{"c/1.bmp", "c/2.PGM", "c/3.ppm", "c/4.tif", "c/5.tiff", "c/6.webp", "c/7.Jpeg", "c/8.gif", "c/9.pbm", "c/jpg", "c/a.jpg.txt"}, Open,
			[]string{"c"}, []string{"c/1.bmp:0", "c/2.PGM:0", "c/3.ppm:0", "c/4.tif:0", "c/5.tiff:0", "c/6.webp:0", "c/7.Jpeg:0"}},
		{"train split", []string{"train/c/a.png", "val/c/b.png"}, Open, []string{"c"}, []string{"c/a.png:0"}},
		{"val split", []string{"train/c/a.png", "val/c/b.png"}, OpenTest, []string{"c"}, []string{"c/b.png:0"}},
		{"test split", []string{"train/c/a.png", "test/c/b.png"}, OpenTest, []string{"c"}, []string{"c/b.png:0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			tree(t, root, tt.tree...)
			d, err := tt.open(root)
			if err != nil {
				t.Fatal(err)
			}
			in := d.Info()
			if !slices.Equal(in.Classes, tt.classes) || in.Format != Format || in.Synthetic || in.Samples != len(tt.files) || in.Name == "" {
				t.Errorf("Info = %+v", in)
			}
			var got []string
			for i := range in.Samples {
				s := loader.Sample{Index: i}
				if err := d.Read(context.Background(), &s); err != nil {
					t.Fatal(err)
				}
				got = append(got, filepath.ToSlash(d.files[i].path)+":"+strconv.Itoa(int(s.Label)))
			}
			if !slices.Equal(got, tt.files) {
				t.Errorf("got %q, want %q", got, tt.files)
			}
		})
	}
}

func TestOpenErrors(t *testing.T) {
	tests := []struct {
		name string
		tree []string
		open func(string) (*Dataset, error)
		want string
	}{
		{"missing", nil, func(p string) (*Dataset, error) { return Open(filepath.Join(p, "none")) }, "no such folder"},
		{"no classes", []string{"a.png"}, Open, "give a folder with a folder"},
		{"empty class", []string{"a/1.png", "b/"}, Open, "class folder b holds no"},
		{"class without images", []string{"a/1.png", "b/1.gif"}, Open, "class folder b holds no"},
		{"a file", []string{"a.png"}, func(p string) (*Dataset, error) { return Open(filepath.Join(p, "a.png")) }, "give a folder"},
		{"no evaluation split", []string{"a/1.png"}, OpenTest, "no folder val"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			tree(t, root, tt.tree...)
			_, err := tt.open(root)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), root) {
				t.Errorf("error %v does not say %q", err, tt.want)
			}
		})
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
	if err := jpeg.Encode(&b, m, &jpeg.Options{Quality: 90}); err != nil {
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

// TestYCbCr compares every subsampling and size, exactly, with what libjpeg's
// filter is on paper: for each halved direction 3/4 of the nearer chroma sample and
// 1/4 of the farther one. Odd and even outputs round differently. Colours are
// JFIF's equations, rounded to nearest.
func TestYCbCr(t *testing.T) {
	for _, ratio := range []image.YCbCrSubsampleRatio{
		image.YCbCrSubsampleRatio444, image.YCbCrSubsampleRatio422, image.YCbCrSubsampleRatio420,
		image.YCbCrSubsampleRatio440, image.YCbCrSubsampleRatio411, image.YCbCrSubsampleRatio410,
	} {
		for _, size := range [][2]int{{257, 9}, {256, 8}, {1, 1}, {2, 2}, {3, 1}, {4, 3}, {5, 2}, {6, 5}} {
			// Wider and higher than shown, as image/jpeg makes it: the rest must not be seen.
			whole := image.NewYCbCr(image.Rect(0, 0, 272, 16), ratio)
			rng := loader.NewRNG(1, size[0], int(ratio))
			for _, p := range [][]byte{whole.Y, whole.Cb, whole.Cr} {
				for i := range p {
					p[i] = byte(rng.Uint64())
					if rng.IntN(8) == 0 {
						p[i] = byte(255 * rng.IntN(2)) // the extremes clamp
					}
				}
			}
			m := whole.SubImage(image.Rect(0, 0, size[0], size[1])).(*image.YCbCr)
			checkYCbCr(t, m)
		}
	}
}

func checkYCbCr(t *testing.T, m *image.YCbCr) {
	t.Helper()
	w, h := m.Rect.Dx(), m.Rect.Dy()
	got := make([]byte, w*h*3)
	fromYCbCr(got, m)
	for y := range h {
		for x := range w {
			p := [3]byte(got[(y*w+x)*3:])
			luma, cb, cr := float64(m.Y[m.YOffset(x, y)]), float64(chroma(m, m.Cb, x, y))-128, float64(chroma(m, m.Cr, x, y))-128
			for i, want := range []float64{luma + 1.402*cr, luma - 0.344136*cb - 0.714136*cr, luma + 1.772*cb} {
				if d := math.Abs(float64(p[i]) - max(0, min(want, 255))); d > 0.502 { // the constants have 16 bits
					t.Fatalf("%v %dx%d: pixel (%d,%d) is %v: channel %d is not the nearest to %v", m.SubsampleRatio, w, h, x, y, p, i, want)
				}
			}
		}
	}
}

// chroma is the filter for one pixel of one plane.
func chroma(m *image.YCbCr, plane []byte, x, y int) int {
	w, h := m.Rect.Dx(), m.Rect.Dy()
	at := func(x, y int) int { return int(plane[y*m.CStride+x]) }
	// near and far samples of a halved direction; past the edge the edge again.
	pick := func(i, n int) (near, far int) {
		near = i / 2
		return near, max(0, min(near-1+i%2*2, (n+1)/2-1))
	}
	x0, x1 := pick(x, w)
	y0, y1 := pick(y, h)
	narrow := (w+1)/2 <= 2
	switch m.SubsampleRatio {
	case image.YCbCrSubsampleRatio420:
		if narrow {
			return at(x/2, y/2)
		}
		return (9*at(x0, y0) + 3*at(x1, y0) + 3*at(x0, y1) + at(x1, y1) + 8 - x%2) / 16
	case image.YCbCrSubsampleRatio422:
		if narrow {
			return at(x/2, y)
		}
		return (3*at(x0, y) + at(x1, y) + 1 + x%2) / 4
	case image.YCbCrSubsampleRatio440:
		return (3*at(x, y0) + at(x, y1) + 1 + y%2) / 4
	case image.YCbCrSubsampleRatio411:
		return at(x/4, y)
	case image.YCbCrSubsampleRatio410:
		return at(x/4, y/2)
	}
	return at(x, y)
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

// TestStrangeNames: Linux takes any bytes in a name but / and NUL. They are read as
// any other, and an error about one is a line of plain text.
func TestStrangeNames(t *testing.T) {
	names := []string{"new\nline.png", "latin1-caf\xe9.png", "esc\x1b[2J.png", " .png", "-n.png", "ünïcode 日本.png"}
	root := t.TempDir()
	for _, n := range names {
		tree(t, root, "c\nlass/"+n)
	}
	d, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	if d.Info().Samples != len(names) || d.Info().Classes[0] != "c\nlass" {
		t.Fatalf("Info = %+v", d.Info())
	}
	for i := range names {
		s := loader.Sample{Index: i}
		if err := errors.Join(d.Read(t.Context(), &s), d.Decode(&s)); err != nil || s.W != 2 {
			t.Errorf("%q: %v", d.Path(i), err)
		}
		s.Raw = s.Raw[:10]
		err := d.Decode(&s)
		for _, r := range err.Error() {
			if r == utf8.RuneError || !unicode.IsPrint(r) {
				t.Errorf("%q has %U in it", err, r)
			}
		}
	}
}

// TestLinkedFolders: folders that link to one another in every order are an error
// that says so, soon, and not a list without end.
func TestLinkedFolders(t *testing.T) {
	root := t.TempDir()
	const n = 10 // 10! paths
	for i := range n {
		for j := range n {
			if i != j {
				tree(t, root, fmt.Sprintf("c/%d/to%d -> ../%d", i, j, j))
			}
		}
	}
	_, err := Open(root)
	if err == nil || !strings.Contains(err.Error(), "remove links") {
		t.Errorf("err = %v", err)
	}
}

// TestBrokenLinks: as with torchvision they are listed, and reading says why not.
func TestBrokenLinks(t *testing.T) {
	root := t.TempDir()
	tree(t, root, "c/round.png -> round.png", "c/gone.png -> nowhere.png")
	d, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"no such file or directory: put it back", "too many levels of symbolic links: remove the link"} {
		err := d.Read(t.Context(), &loader.Sample{Index: i})
		if err == nil || !strings.Contains(err.Error(), d.Path(i)+": "+want) {
			t.Errorf("%v does not say %q", err, want)
		}
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

func BenchmarkConvert420(b *testing.B) {
	m := image.NewYCbCr(image.Rect(0, 0, 500, 375), image.YCbCrSubsampleRatio420)
	rng := loader.NewRNG(1, 2, 3)
	for _, p := range [][]byte{m.Y, m.Cb, m.Cr} {
		for i := range p {
			p[i] = byte(100 + i/64%64 + rng.IntN(8))
		}
	}
	dst := make([]byte, 500*375*3)
	b.ReportAllocs()
	b.SetBytes(int64(len(dst)))
	for b.Loop() {
		fromYCbCr(dst, m)
	}
}
