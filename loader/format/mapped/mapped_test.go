package mapped

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"dev.gpustall/loader"
	"dev.gpustall/loader/format/npy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stack is a file of n samples of that shape, and what they hold.
func stack(typ npy.Type, n int, shape npy.Shape) (file, body []byte) {
	size := typ.Size() * n
	for _, k := range shape {
		size *= k
	}
	body = make([]byte, size)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range body {
		body[i] = byte(r.Uint32())
	}
	return append(npy.AppendHeader(nil, typ, append(npy.Shape{n}, shape...)), body...), body
}

// labels is a file of the numbers 0, 1, 2, 0, … of a type.
func labels(descr npy.Type, n int) []byte {
	b := npy.AppendHeader(nil, descr, npy.Shape{n})
	for i := range n {
		var w [8]byte
		binary.LittleEndian.PutUint64(w[:], uint64(i%3))
		b = append(b, w[:descr[2]-'0']...)
	}
	return b
}

func put(t testing.TB, dir string, files map[string][]byte) string {
	t.Helper()
	for name, b := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, b, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestOpen: in every form of folder, each sample has the bytes of its place, and its class.
func TestOpen(t *testing.T) {
	const n = 7
	file, body := stack(npy.Float16, n, npy.Shape{3, 2, 4, 5})
	dir := put(t, t.TempDir(), map[string][]byte{
		"x.npy": file, "alone/x.npy": file, "pair/x.npy": file, "pair/labels.npy": labels("<i8", n),
		"set/train/x.npy": file, "set/train/labels.npy": labels("|u1", n), "set/val/y.npy": file, "set/val/labels.npy": labels("<i4", n),
	})
	for path, open := range map[string]func(string) (*Dataset, error){"alone/x.npy": Open, "pair": Open, "pair/x.npy": Open, "set": Open, "set/val": Open, "set/": OpenTest} {
		d, err := open(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(path, err)
		}
		if i := d.Info(); i.Shape() != "2x4x5x3" || i.Samples != n || i.Bytes != int64(len(body)) || !i.Float || (len(i.Classes) == 3) != (path != "alone/x.npy") {
			t.Errorf("%s: %+v", path, i)
		}
		if got := d.Contents(); got != "float16 (3,2,4,5) arrays, read as (C,T,H,W), in one file" || !strings.HasSuffix(d.Locate(6), ".npy[6]") {
			t.Error(got, d.Locate(6))
		}
		for i := range n {
			s := loader.Sample{Index: i}
			if err := errors.Join(d.Read(t.Context(), &s), d.Decode(&s)); err != nil {
				t.Fatal(err)
			}
			size := len(body) / n
			if !bytes.Equal(s.Pixels, body[i*size:(i+1)*size]) || s.Label != int32(i%3*len(d.Info().Classes)/3) {
				t.Errorf("%s: sample %d: class %d", path, i, s.Label)
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if err := d.Read(t.Context(), &loader.Sample{}); !errors.Is(err, os.ErrClosed) {
			t.Errorf("read after it was closed: %v", err)
		}
	}
	for _, path := range []string{"alone", "", "set"} { // one sample, as before; nothing; no evaluation split there
		open := Open
		if path == "set" {
			open, path = OpenTest, "pair"
		}
		if _, err := open(filepath.Join(dir, path)); !errors.Is(err, ErrNotMapped) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestRefused: each error says what is wrong and what to do.
func TestRefused(t *testing.T) {
	const n = 6
	file, _ := stack(npy.Uint8, n, npy.Shape{1, 2, 3})
	row := npy.AppendHeader(nil, "<f4", npy.Shape{n})
	minus := labels("<i2", n)
	copy(minus[len(minus)-2:], "\xff\xff")
	for says, files := range map[string]map[string][]byte{
		"is truncated: its 6 samples of uint8 (1,2,3) end at byte 164, and it has 163; write it again": {"x.npy": file[:len(file)-1], Labels: labels("<i8", n)},
		"1 bytes follow its 6 samples":                       {"x.npy": append(bytes.Clone(file), 0), Labels: labels("<i8", n)},
		"in which no first dimension counts samples":         {"x.npy": append(row, make([]byte, 4*n)...), Labels: labels("<i8", n)},
		"it has 5 classes, and there are 6 samples":          {"x.npy": file, Labels: labels("<i8", 5)},
		`its elements are "<f4", which are no whole numbers`: {"x.npy": file, Labels: append(row, make([]byte, 4*n)...)},
		"the class of sample 5 is -1, not one of 0 to":       {"x.npy": file, Labels: minus},
		"it has 175 bytes where its 6 numbers end at 176":    {"x.npy": file, Labels: labels("<i8", n)[:175]},
		"it does not begin as a .npy file does":              {"x.npy": []byte("hello, world"), Labels: labels("<i8", n)},
	} {
		_, err := Open(put(t, t.TempDir(), files))
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "; ") || errors.Is(err, ErrNotMapped) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// TestShrunk: if a file shrinks while it is read, the lost samples are errors, whether whole
// pages are gone or only the end of one.
func TestShrunk(t *testing.T) {
	const n = 8
	page := os.Getpagesize()
	file, body := stack(npy.Uint8, n, npy.Shape{page})
	dir := put(t, t.TempDir(), map[string][]byte{"x.npy": file, Labels: labels("<i8", n)})
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := os.Truncate(filepath.Join(dir, "x.npy"), int64(len(file)-3*page-100)); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		s := loader.Sample{Index: i}
		err := d.Read(t.Context(), &s)
		switch {
		case i < 4 && (err != nil || !bytes.Equal(s.Raw, body[i*page:(i+1)*page])):
			t.Errorf("sample %d: %v", i, err)
		case i >= 4 && (err == nil || !strings.Contains(err.Error(), "x.npy: sample ") || !strings.Contains(err.Error(), "it shrank; start again")):
			t.Errorf("sample %d: %v", i, err)
		}
	}
}

// TestGivenBack: reading far more than is kept in memory gives the right bytes.
func TestGivenBack(t *testing.T) {
	file, body := stack(npy.Uint8, 50, npy.Shape{1000})
	d, err := Open(put(t, t.TempDir(), map[string][]byte{"x.npy": file, Labels: labels("<i8", 50)}))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var s loader.Sample
	for i := range 5 * (64 << 20) / (64 << 10) { // each counts as 64 KiB
		s.Index = i % 50
		if err := d.Read(t.Context(), &s); err != nil || !bytes.Equal(s.Raw, body[s.Index*1000:(s.Index+1)*1000]) {
			t.Fatalf("sample %d: %v", s.Index, err)
		}
	}
}

// BenchmarkRead: a clip of 384 KiB, and an image of 3 KiB, from the page cache.
func BenchmarkRead(b *testing.B) {
	for name, shape := range map[string]npy.Shape{"clip": {3, 16, 64, 128}, "image": {3, 32, 32}} {
		b.Run(name, func(b *testing.B) {
			file, _ := stack(npy.Uint8, 200, shape)
			d, err := Open(put(b, b.TempDir(), map[string][]byte{"x.npy": file, Labels: labels("<i8", 200)}))
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			b.SetBytes(int64(d.sample.Bytes))
			var s loader.Sample
			for b.Loop() {
				if s.Index = (s.Index + 77) % 200; d.Read(b.Context(), &s) != nil {
					b.Fatal("it cannot be read")
				}
			}
		})
	}
}
