package npy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/loader"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestGoldens: arrays that NumPy wrote are read, and lie at the right place in a batch.
func TestGoldens(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		info       string
	}{
		{"clip-f2.npy", "float16 (3,2,4,5)", "2x4x5x3"},
		{"version2-f2.npy", "float16 (3,2,4,5)", "2x4x5x3"},
		{"image-f4.npy", "float32 (3,4,5)", "4x5x3"},
		{"grey-u1.npy", "uint8 (4,5)", "4x5x1"},
		{"row-f4.npy", "float32 (20,)", "1x20x1"},
	} {
		s := loader.Sample{Raw: read(t, tt.name)}
		h, err := Parse(s.Raw)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		var info loader.Info
		h.Info(&info)
		if h.String() != tt.want || info.Shape() != tt.info || info.Float != (h.Type != Uint8) {
			t.Errorf("%s: %s, %s, want %s, %s", tt.name, &h, info.Shape(), tt.want, tt.info)
		}
		if err := Decode(&s, &h); err != nil {
			t.Fatal(err)
		}
		dst := make([]float32, info.Values())
		Transform{h.Type}.Host(&s, nil, dst)
		scale := map[Type]float32{Uint8: 255}[h.Type]
		if scale == 0 {
			scale = 8
		}
		pixels := max(info.T, 1) * info.H * info.W
		for i := range dst { // pixel, channel
			c, p := i%info.C, i/info.C
			if want := float32(c*pixels+p) / scale; dst[i] != want {
				t.Fatalf("%s: channel %d of pixel %d is %v, want %v", tt.name, c, p, dst[i], want)
			}
		}
	}
}

// TestDoubt: if channels seem to be last, the doubt names the axis to move; for other arrays
// there is no doubt.
func TestDoubt(t *testing.T) {
	for _, tt := range []struct {
		shape   Shape
		stacked bool
		want    string
	}{
		{Shape{224, 200, 3}, false, "the arrays are (224,200,3): that is 224 channels of images 3 wide; if they are (H,W,C), put the channels first: save numpy.moveaxis(a, -1, 0)"},
		{Shape{28, 28, 1}, true, "if they are (H,W,C), put the channels first: save numpy.moveaxis(a, -1, 1)"},
		{Shape{16, 64, 64, 4}, false, "if they are (T,H,W,C), put the channels first: save numpy.moveaxis(a, -1, 0)"},
		{Shape{3, 224, 224}, false, ""},
		{Shape{3, 16, 64, 3}, false, ""}, // both ends could be
		{Shape{64, 8, 8}, false, ""},
		{Shape{20, 3}, false, ""},
	} {
		shape, parse := tt.shape, func(b []byte) (Header, error) { return Parse(b) }
		if tt.stacked {
			shape = append(Shape{7}, shape...)
			parse = func(b []byte) (Header, error) { h, _, err := ParseStack(b); return h, err }
		}
		h, err := parse(AppendHeader(nil, Float32, shape))
		if err != nil {
			t.Fatal(err)
		}
		var i loader.Info
		if h.Info(&i); (i.Doubt == "") != (tt.want == "") || !strings.HasSuffix(i.Doubt, tt.want) {
			t.Errorf("%s: %q", &h, i.Doubt)
		}
	}
}

// TestStack: an array of NumPy can be read as several samples, one behind the other. A row of
// numbers may have any width, signed or not.
func TestStack(t *testing.T) {
	for name, want := range map[string]string{"clip-f2.npy": "3 of float16 (2,4,5)", "grey-u1.npy": "4 of uint8 (5,)", "bad-deep.npy": "1 of float32 (1,1,1,1)"} {
		b := read(t, name)
		h, n, err := ParseStack(b)
		if err == nil {
			err = CheckStack(&h, n, int64(len(b)))
		}
		if got := fmt.Sprintf("%d of %s", n, &h); err != nil || got != want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	for descr, want := range map[Type]int64{"|u1": 0xfe, "|i1": -2, "<u2": 0xfffe, "<i2": -2, "<u4": 0xfffffffe, "<i4": -2, "<i8": -2, "<u8": -1} {
		h, err := ParseNumbers(AppendHeader(nil, descr, Shape{5, 1}))
		v, ok := h.Value([]byte("\xfe\xff\xff\xff\xff\xff\xff\xff"))
		if err != nil || h.N != 5 || ok != (descr != "<u8") || ok && v != want {
			t.Errorf("%s: %+v, %d, %v", descr, h, v, err)
		}
	}
	for want, b := range map[string][]byte{
		"first dimension": read(t, "row-f4.npy"), "no whole numbers": read(t, "row-f4.npy"), "no row of numbers": read(t, "clip-f2.npy"), `"<f8"`: read(t, "bad-f8.npy"),
	} {
		_, _, err := ParseStack(b)
		_, err2 := ParseNumbers(b)
		if err := errors.Join(err, err2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// TestRefusals: each error says what the array is, and how to save it.
func TestRefusals(t *testing.T) {
	clip := read(t, "clip-f2.npy")
	for name, want := range map[string]string{
		"bad-f8.npy": `"<f8"`, "bad-bigendian.npy": `">f4"`, "bad-fortran.npy": "Fortran order", "bad-struct.npy": "no plain type",
		"bad-scalar.npy": "0 dimensions", "bad-deep.npy": "5 dimensions", "bad-empty.npy": "(0,3)",
	} {
		if _, err := Parse(read(t, name)); err == nil || !strings.Contains(err.Error(), want) || errs.Explain(err).Hint == "" {
			t.Errorf("%s: %v does not say %q", name, err, want)
		}
	}
	for want, b := range map[string][]byte{
		"does not begin": []byte("JUNK and more"), "truncated in its npy header": clip[:40], "after 0 bytes": {},
		"version 9": bytes.Replace(clip, []byte("NUMPY\x01"), []byte("NUMPY\x09"), 1), `a key "shope"`: bytes.Replace(clip, []byte("shape"), []byte("shope"), 1),
		"its array of float16 (3,2,4,5) takes 240 bytes, and there are 239": clip[:len(clip)-1], "1 bytes follow": append(bytes.Clone(clip), 0),
	} {
		h, err := Parse(clip)
		if err != nil {
			t.Fatal(err)
		}
		if err := Decode(&loader.Sample{Raw: b}, &h); err == nil || !strings.Contains(err.Error(), want) || errs.Explain(err).Hint == "" {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	h, _ := Parse(clip)
	for _, name := range []string{"image-f4.npy", "grey-u1.npy"} {
		if err := Decode(&loader.Sample{Raw: read(t, name)}, &h); err == nil || !strings.Contains(err.Error(), "where the data set's first is float16 (3,2,4,5)") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHalf: every float16 equals its definition.
func TestHalf(t *testing.T) {
	for i := range 1 << 16 {
		exponent, fraction := i>>10&31, float64(i&1023)/1024
		want := math.Ldexp(1+fraction, exponent-15)
		switch {
		case exponent == 0:
			want = math.Ldexp(fraction, -14)
		case exponent == 31 && fraction == 0:
			want = math.Inf(1)
		case exponent == 31:
			want = math.NaN()
		}
		want = math.Copysign(want, float64(1-2*(i>>15)))
		got := float64(Half(uint16(i)))
		if got != want && !(math.IsNaN(got) && math.IsNaN(want)) || math.Signbit(got) != math.Signbit(want) && !math.IsNaN(want) {
			t.Fatalf("%#04x is %v, want %v", i, got, want)
		}
	}
}

// TestToHalf: every float16 is converted there and back. A number between two goes to the
// nearest, and in the middle to the even one.
func TestToHalf(t *testing.T) {
	for i := range uint16(0x7c00) {
		v, next := Half(i), Half(i+1)
		if i+1 == 0x7c00 {
			next = 65536
		}
		middle := v + (next-v)/2
		even := i + i&1
		for at, want := range map[float32]uint16{v: i, -v: i | 0x8000, math.Nextafter32(middle, 0): i, middle: even, math.Nextafter32(middle, next): i + 1} {
			if got := ToHalf(at); got != want && at != 0 {
				t.Fatalf("%v is %#04x, want %#04x", at, got, want)
			}
		}
	}
	for v, want := range map[float32]uint16{float32(math.Inf(1)): 0x7c00, float32(math.Inf(-1)): 0xfc00, 1e30: 0x7c00, float32(math.NaN()): 0x7e00, 0: 0} {
		if got := ToHalf(v); got != want {
			t.Errorf("%v is %#04x, want %#04x", v, got, want)
		}
	}
}

// TestAppendHeader: headers equal NumPy's byte for byte.
func TestAppendHeader(t *testing.T) {
	for _, name := range []string{"clip-f2.npy", "image-f4.npy", "grey-u1.npy", "row-f4.npy"} {
		b := read(t, name)
		h, err := Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		if got := AppendHeader(nil, h.Type, h.Shape); !bytes.Equal(got, b[:h.Start]) {
			t.Errorf("%s: %q, want %q", name, got, b[:h.Start])
		}
	}
}

// FuzzParse: nothing panics, and what is accepted can be decoded and has the size it claims.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.npy")
	for _, name := range files {
		f.Add(read(f, filepath.Base(name)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, n, err := ParseStack(b); err == nil && (n < 1 || h.Bytes < 1 || h.Start > len(b)) {
			t.Errorf("%d samples of %s, from %d", n, &h, h.Start)
		}
		if h, err := ParseNumbers(b); err == nil {
			if _, ok := h.Value(make([]byte, 8)); !ok || h.N < 1 || h.Start > len(b) {
				t.Errorf("%+v", h)
			}
		}
		h, err := Parse(b)
		if err != nil {
			if e := errs.Explain(err); e.Hint == "" || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v", err)
			}
			return
		}
		var info loader.Info
		h.Info(&info)
		if info.Values()*h.Type.Size() != h.Bytes || h.Start > len(b) {
			t.Errorf("%s: %d bytes from %d", &h, h.Bytes, h.Start)
		}
		s := loader.Sample{Raw: b}
		if err := Decode(&s, &h); err == nil && len(s.Pixels) != h.Bytes {
			t.Errorf("%d bytes for %s", len(s.Pixels), fmt.Sprint(&h))
		}
	})
}

// TestHost: pixels of any float16, in planes of any length, have the right value at the right
// place.
func TestHost(t *testing.T) {
	for _, w := range []int{1, 7, 8, 9, 21845} {
		s := loader.Sample{C: 3, H: 1, W: w, Pixels: make([]byte, 2*3*w)}
		for i := range 3 * w {
			binary.LittleEndian.PutUint16(s.Pixels[2*i:], uint16(i))
		}
		all := make([]float32, 3*w+8)
		Transform{Float16}.Host(&s, nil, all[:3*w:3*w])
		for i, got := range all[:3*w] {
			want := Half(uint16(i%3*w + i/3))
			if got != want && (got == got || want == want) || math.Signbit(float64(got)) != math.Signbit(float64(want)) {
				t.Fatalf("%d wide: value %d is %v, want %v", w, i, got, want)
			}
		}
		if all[3*w] != 0 {
			t.Errorf("%d wide: something is written behind the end", w)
		}
	}
}

func BenchmarkHost(b *testing.B) {
	s := loader.Sample{C: 3, T: 16, H: 112, W: 112, Pixels: make([]byte, 2*3*16*112*112)}
	dst := make([]float32, len(s.Pixels)/2)
	b.SetBytes(int64(len(s.Pixels)))
	for b.Loop() {
		Transform{Float16}.Host(&s, nil, dst)
	}
}
