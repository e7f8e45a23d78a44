package jpeg

import (
	"bytes"
	"errors"
	"hash/crc32"
	"image"
	stdjpeg "image/jpeg"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// files are the images of testdata.
func files(t testing.TB) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob("../testdata/*.jpg")
	if err != nil || len(names) < 15 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	all := map[string][]byte{}
	for _, n := range names {
		b, err := os.ReadFile(n)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(n)] = b
	}
	return all
}

// arithmetic makes an image of a kind that is left to others. The image says that it is
// coded arithmetically.
func arithmetic(b []byte) []byte {
	b = bytes.Clone(b)
	b[bytes.Index(b, []byte{0xff, sof0})+1] = 0xc9
	return b
}

func decode(d *Decoder, b []byte) error {
	if err := d.Header(b); err != nil {
		return err
	}
	return d.Decode()
}

// TestPlanes compares with image/jpeg, whose inverse DCT rounds differently. Package
// imagefolder tests that the colours are exactly libjpeg's.
func TestPlanes(t *testing.T) {
	for name, b := range files(t) {
		var d Decoder
		if err := decode(&d, b); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		m, err := stdjpeg.Decode(bytes.NewReader(b))
		if err != nil && (name == "progressiverestart.jpg" || name == "cmykunmarked.jpg" || strings.HasPrefix(name, "damaged")) {
			continue // Go 1.26's decoder refuses them
		}
		if err != nil {
			t.Fatal(err)
		}
		if m.Bounds() != image.Rect(0, 0, d.Width, d.Height) {
			t.Errorf("%s: %d x %d, want %v", name, d.Width, d.Height, m.Bounds())
			continue
		}
		switch m := m.(type) {
		case *image.Gray:
			checkPlane(t, name, d.Gray.Pix, m.Pix, d.Gray.Stride, m.Stride, d.Width, d.Height)
		case *image.YCbCr:
			if d.YCbCr.SubsampleRatio != m.SubsampleRatio {
				t.Errorf("%s: %v, want %v", name, d.YCbCr.SubsampleRatio, m.SubsampleRatio)
				continue
			}
			checkPlane(t, name, d.YCbCr.Y, m.Y, d.YCbCr.YStride, m.YStride, d.Width, d.Height)
			w := d.YCbCr.COffset(d.Width-1, 0) + 1
			h := d.YCbCr.COffset(0, d.Height-1)/d.YCbCr.CStride + 1
			checkPlane(t, name, d.YCbCr.Cb, m.Cb, d.YCbCr.CStride, m.CStride, w, h)
			checkPlane(t, name, d.YCbCr.Cr, m.Cr, d.YCbCr.CStride, m.CStride, w, h)
		}
	}
}

func checkPlane(t *testing.T, name string, got, want []byte, gotStride, wantStride, w, h int) {
	t.Helper()
	for y := range h {
		for x := range w {
			if a, b := int(got[y*gotStride+x]), int(want[y*wantStride+x]); a-b > 1 || b-a > 1 {
				t.Errorf("%s: (%d,%d) is %d, want about %d", name, x, y, a, b)
				return
			}
		}
	}
}

// TestUnsupported: other kinds, and files cut off anywhere, are left to others.
func TestUnsupported(t *testing.T) {
	mine := files(t)
	var d Decoder
	if err := decode(&d, arithmetic(mine["jpeg420.jpg"])); !errors.Is(err, ErrUnsupported) {
		t.Errorf("arithmetic coding: %v", err)
	}
	for _, name := range []string{"jpeg420.jpg", "restart.jpg", "grey.jpg", "progressive.jpg"} {
		b := mine[name]
		for n := range len(b) - 2 { // less the end of the image, which nobody needs
			if decode(&d, b[:n:n]) == nil && n < len(b)-3 {
				t.Errorf("%s: the first %d of %d bytes are enough", name, n, len(b))
			}
		}
	}
	// A marker in the data that libjpeg does not know.
	b := bytes.Clone(mine["jpeg420.jpg"])
	copy(b[len(b)/2:], []byte{0xff, 0x10})
	if err := decode(&d, b); !errors.Is(err, ErrUnsupported) {
		t.Errorf("with a marker that is none: %v", err)
	}
	if err := new(Decoder).Decode(); !errors.Is(err, ErrUnsupported) {
		t.Errorf("without a header: %v", err)
	}
}

// TestReuse: an image leaves no traces in the next one, and memory is allocated only for the
// largest.
func TestReuse(t *testing.T) {
	mine := files(t)
	sum := func(d *Decoder, b []byte) uint32 {
		if err := decode(d, b); err != nil {
			t.Fatal(err)
		}
		if d.Gray != nil {
			return crc32.ChecksumIEEE(d.Gray.Pix)
		}
		s := crc32.NewIEEE()
		for _, p := range [][]byte{d.YCbCr.Y, d.YCbCr.Cb, d.YCbCr.Cr, d.Black} {
			_, _ = s.Write(p)
		}
		return s.Sum32()
	}
	var d Decoder
	all := func() {
		for name, b := range mine {
			_ = decode(&d, arithmetic(mine["rgb.jpg"]))
			_ = decode(&d, b[:len(b)/2])
			if got, want := sum(&d, b), sum(new(Decoder), b); got != want {
				t.Errorf("%s decodes differently the second time", name)
			}
		}
	}
	all()
	all()
	b := mine["jpeg420.jpg"]
	if n := testing.AllocsPerRun(10, func() { _ = decode(&d, b) }); n != 0 {
		t.Errorf("%v allocations an image", n)
	}
}

// TestTrim: the memory of a large image is given back and the memory of a small one is
// kept. The decoder still works. Only the header of the large image exists.
func TestTrim(t *testing.T) {
	b := files(t)["progressivegrey.jpg"]
	var d Decoder
	if err := decode(&d, b); err != nil {
		t.Fatal(err)
	}
	const limit = 1 << 20
	held := cap(d.planes) + 2*cap(d.coefs)
	if d.Trim(limit); d.Gray != nil || d.b != nil || cap(d.planes)+2*cap(d.coefs) != held || held == 0 {
		t.Errorf("an image of %d bytes, %d of them kept", held, cap(d.planes)+2*cap(d.coefs))
	}
	if err := d.Decode(); !errors.Is(err, ErrUnsupported) {
		t.Errorf("no image: %v", err)
	}
	large := bytes.Clone(b)
	at := bytes.Index(large, []byte{0xff, sof2}) + 5
	copy(large[at:], []byte{0x10, 0, 0x10, 0})
	_ = decode(&d, large)
	if held := cap(d.planes) + 2*cap(d.coefs); held < 3*4096*4096 {
		t.Fatalf("%d bytes for %d x %d", held, d.Width, d.Height)
	}
	if d.Trim(limit); cap(d.planes)+cap(d.coefs) > 0 {
		t.Errorf("%d and %d kept", cap(d.planes), cap(d.coefs))
	}
	if err := decode(&d, b); err != nil || d.Gray == nil {
		t.Errorf("after it: %v", err)
	}
}

// FuzzDecode: nothing panics, and where image/jpeg reads the same file, it has that
// size.
func FuzzDecode(f *testing.F) {
	for _, b := range files(f) {
		f.Add(b)
	}
	var d Decoder
	f.Fuzz(func(t *testing.T, b []byte) {
		if d.Header(b) != nil || d.Width*d.Height > 1<<20 || d.Decode() != nil {
			return
		}
		if (d.Gray == nil) == (d.YCbCr == nil) {
			t.Fatal("not one image")
		}
		if m, err := stdjpeg.Decode(bytes.NewReader(b)); err == nil && m.Bounds() != image.Rect(0, 0, d.Width, d.Height) {
			t.Errorf("%d x %d, want %v", d.Width, d.Height, m.Bounds())
		}
	})
}

// BenchmarkDecode decodes 500 x 375 pixels with much detail, as in photographs, and
// with little.
func BenchmarkDecode(b *testing.B) {
	for name, noise := range map[string]uint32{"detailed": 64, "smooth": 1} {
		m := image.NewYCbCr(image.Rect(0, 0, 500, 375), image.YCbCrSubsampleRatio420)
		state := uint32(1)
		for _, p := range [][]byte{m.Y, m.Cb, m.Cr} {
			for i := range p {
				state = state*1664525 + 1013904223
				p[i] = byte(uint32(i/512%100) + uint32(i%512/4) + state>>24%noise)
			}
		}
		var buf bytes.Buffer
		if err := stdjpeg.Encode(&buf, m, &stdjpeg.Options{Quality: 85}); err != nil {
			b.Fatal(err)
		}
		raw := buf.Bytes()
		b.Run(name+"/here", func(b *testing.B) {
			var d Decoder
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if err := decode(&d, raw); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/image-jpeg", func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := stdjpeg.Decode(bytes.NewReader(raw)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
