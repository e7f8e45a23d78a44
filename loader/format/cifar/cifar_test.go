package cifar

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"dev.gpustall/loader"
	"dev.gpustall/loader/synth/marker"
	"dev.gpustall/loader/transform"
)

var (
	_ loader.Dataset  = (*Dataset)(nil)
	_ loader.Resident = (*Dataset)(nil)
)

type want struct {
	Label  int32
	SHA256 string
}

// expected returns what make.py wrote, for the given files in order.
func expected(t testing.TB, files ...string) []want {
	t.Helper()
	return expectedIn(t, "testdata/expected.json", files...)
}

func expectedIn(t testing.TB, path string, files ...string) []want {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string][]want
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	var out []want
	for _, f := range files {
		out = append(out, all[f]...)
	}
	return out
}

// copyDir copies a folder of testdata to dir.
func copyDir(t testing.TB, from, dir string) {
	t.Helper()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", from))); err != nil {
		t.Fatal(err)
	}
}

// archive packs a folder of testdata as the original archives are packed.
func archive(t testing.TB, from, inner, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Name: inner + "/", Typeflag: tar.TypeDir, Mode: 0o755}); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(filepath.Join("testdata", from))
	if err != nil {
		t.Fatal(err)
	}
	for i := len(files) - 1; i >= 0; i-- { // the real ones are not in order either
		b, err := os.ReadFile(filepath.Join("testdata", from, files[i].Name()))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.WriteHeader(&tar.Header{Name: inner + "/" + files[i].Name(), Mode: 0o644, Size: int64(len(b))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestForms(t *testing.T) {
	tests := []struct {
		name   string
		make   func(t *testing.T, dir string) string
		format string
	}{
		{"binary folder", func(t *testing.T, dir string) string { return "testdata/bin" }, FormatBinary},
		{"python 2 folder", func(t *testing.T, dir string) string { return "testdata/py2" }, FormatPython},
		{"python 3 folder, Fortran order", func(t *testing.T, dir string) string { return "testdata/py3" }, FormatPython},
		{"protocol 4 folder", func(t *testing.T, dir string) string { return "testdata/py4" }, FormatPython},
		{"parent of binary", func(t *testing.T, dir string) string {
			copyDir(t, "bin", filepath.Join(dir, DirBinary))
			return dir
		}, FormatBinary},
		{"parent of python", func(t *testing.T, dir string) string {
			copyDir(t, "py2", filepath.Join(dir, DirPython))
			return dir
		}, FormatPython},
		{"binary archive", func(t *testing.T, dir string) string {
			p := filepath.Join(dir, "whatever.tgz")
			archive(t, "bin", DirBinary, p)
			return p
		}, FormatBinary},
		{"python archive", func(t *testing.T, dir string) string {
			p := filepath.Join(dir, ArchivePython)
			archive(t, "py2", DirPython, p)
			return p
		}, FormatPython},
		{"parent of an archive", func(t *testing.T, dir string) string {
			archive(t, "py3", DirPython, filepath.Join(dir, ArchivePython))
			return dir
		}, FormatPython},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := tt.make(t, t.TempDir())
			for _, split := range []struct {
				open  func(string) (*Dataset, error)
				files []string
			}{
				{Open, []string{"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"}},
				{OpenTest, []string{"test_batch"}},
			} {
				d, err := split.open(path)
				if err != nil {
					t.Fatal(err)
				}
				in := d.Info()
				if in.Format != tt.format || in.Name != "CIFAR-10" || in.Synthetic || in.H != 32 || in.W != 32 || in.C != 3 {
					t.Errorf("Info = %+v", in)
				}
				if len(in.Classes) != 10 || in.Classes[9] != "truck" {
					t.Errorf("classes %q", in.Classes)
				}
				exp := expected(t, split.files...)
				if in.Samples != len(exp) {
					t.Fatalf("%d samples, want %d", in.Samples, len(exp))
				}
				var s loader.Sample
				for i, e := range exp {
					s.Index = i
					if err := d.Read(context.Background(), &s); err != nil {
						t.Fatal(err)
					}
					sum := sha256.Sum256(s.Raw)
					if s.Label != e.Label || hex.EncodeToString(sum[:]) != e.SHA256 {
						t.Errorf("sample %d: label %d, want %d; planes equal: %v", i, s.Label, e.Label, hex.EncodeToString(sum[:]) == e.SHA256)
					}
					if err := d.Decode(&s); err != nil {
						t.Fatal(err)
					}
					for y := range 32 {
						for x := range 32 {
							for c := range 3 {
								if s.Pixels[(y*32+x)*3+c] != s.Raw[c*1024+y*32+x] {
									t.Fatalf("sample %d: pixel (%d,%d,%d) is not its plane's", i, y, x, c)
								}
							}
						}
					}
				}
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestErrors(t *testing.T) {
	edit := func(name string, fn func([]byte) []byte) func(*testing.T, string) string {
		return func(t *testing.T, dir string) string {
			from := "bin"
			if !strings.HasSuffix(name, ".bin") {
				from = "py2"
			}
			copyDir(t, from, dir)
			p := filepath.Join(dir, name)
			b, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			if b = fn(b); b == nil {
				if err := os.Remove(p); err != nil {
					t.Fatal(err)
				}
				return dir
			}
			if err := os.WriteFile(p, b, 0o644); err != nil {
				t.Fatal(err)
			}
			return dir
		}
	}
	tests := []struct {
		name string
		make func(t *testing.T, dir string) string
		want []string // all in the error
	}{
		{"no such path", func(t *testing.T, dir string) string { return filepath.Join(dir, "none") }, []string{"none", "no such file or folder", "check the path"}},
		{"empty folder", func(t *testing.T, dir string) string { return dir }, []string{"no CIFAR-10 and no CIFAR-100 here", "data_batch_1.bin", ArchivePython}},
		{"not an archive", func(t *testing.T, dir string) string {
			p := filepath.Join(dir, "x.tar.gz")
			if err := os.WriteFile(p, []byte("hello, world"), 0o644); err != nil {
				t.Fatal(err)
			}
			return p
		}, []string{"x.tar.gz", "not a gzip file", "give the folder"}},
		{"archive of something else", func(t *testing.T, dir string) string {
			p := filepath.Join(dir, "x.tar.gz")
			f, _ := os.Create(p)
			z := gzip.NewWriter(f)
			w := tar.NewWriter(z)
			if err := errors.Join(w.Close(), z.Close(), f.Close()); err != nil {
				t.Fatal(err)
			}
			return p
		}, []string{"holds no file of it"}},
		{"truncated archive", func(t *testing.T, dir string) string {
			p := filepath.Join(dir, ArchiveBinary)
			archive(t, "bin", DirBinary, p)
			st, _ := os.Stat(p)
			if err := os.Truncate(p, st.Size()/2); err != nil {
				t.Fatal(err)
			}
			return p
		}, []string{ArchiveBinary, "truncated", "download"}},
		{"truncated record", edit("data_batch_3.bin", func(b []byte) []byte { return b[:len(b)-100] }), []string{"data_batch_3.bin", "6046 bytes", "truncated", "download"}},
		{"truncated at a record", edit("data_batch_3.bin", func(b []byte) []byte { return b[:Record] }), []string{"data_batch_3.bin", "1 samples", "looks truncated"}},
		{"empty file", edit("data_batch_2.bin", func(b []byte) []byte { return []byte{} }), []string{"data_batch_2.bin", "empty"}},
		{"missing file", edit("data_batch_4.bin", func(b []byte) []byte { return nil }), []string{"data_batch_4.bin is missing", "incomplete"}},
		{"label out of range", edit("data_batch_5.bin", func(b []byte) []byte { b[Record] = 10; return b }), []string{"data_batch_5.bin", "sample 1 has label 10", "10 classes"}},
		{"truncated pickle", edit("data_batch_1", func(b []byte) []byte { return b[:1000] }), []string{"data_batch_1", "truncated"}},
		{"empty pickle", edit("data_batch_1", func(b []byte) []byte { return []byte{} }), []string{"data_batch_1", "empty"}},
		{"pickle of another kind", edit("data_batch_1", func(b []byte) []byte { return []byte("\x80\x02K\x01.") }), []string{"data_batch_1", "not a dict"}},
		{"pickle without data", edit("data_batch_1", func(b []byte) []byte { return []byte("\x80\x02}.") }), []string{`no array "data"`}},
		{"missing pickle", edit("test_batch", func(b []byte) []byte { return nil }), nil},
		{"pickled label out of range", edit("data_batch_1", func(b []byte) []byte { b[57] = 11; return b }), []string{"data_batch_1", "label 11"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Open(tt.make(t, t.TempDir()))
			if tt.want == nil { // the test split alone is damaged
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil {
				t.Fatal("no error")
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not say %q", err, w)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q is not one sentence", err)
			}
		})
	}
}

// TestMarker: generated data is recognised, and must have the counts that its marker promises.
func TestMarker(t *testing.T) {
	dir := t.TempDir()
	copyDir(t, "bin", dir)
	if err := marker.Write(dir, marker.Marker{Format: FormatBinary, Samples: 10, Test: 2}); err != nil {
		t.Fatal(err)
	}
	for _, open := range []func(string) (*Dataset, error){Open, OpenTest} {
		d, err := open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if in := d.Info(); !in.Synthetic || in.Name != "synthetic CIFAR-10" {
			t.Errorf("Info = %+v", in)
		}
	}
	if err := os.Truncate(filepath.Join(dir, "data_batch_5.bin"), Record); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "promises 10") {
		t.Errorf("err = %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, marker.File), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	d, err := OpenTest(dir)
	if err != nil || !d.Info().Synthetic {
		t.Errorf("a damaged marker no longer marks: %v", err)
	}
}

func TestReadBounds(t *testing.T) {
	d, err := Open("testdata/bin")
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{-1, 10} {
		if err := d.Read(context.Background(), &loader.Sample{Index: i}); err == nil {
			t.Errorf("Read(%d) succeeds", i)
		}
	}
	if err := d.Decode(&loader.Sample{Raw: make([]byte, 5)}); err == nil {
		t.Error("Decode of 5 bytes succeeds")
	}
}

// TestShrunk: if a file shrinks while it is read, the error names the file, and is not
// the end of data.
func TestShrunk(t *testing.T) {
	dir := t.TempDir()
	copyDir(t, "bin", dir)
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := os.Truncate(filepath.Join(dir, "data_batch_3.bin"), Record+5); err != nil {
		t.Fatal(err)
	}
	if err := d.Read(t.Context(), &loader.Sample{Index: 4}); err != nil {
		t.Error(err)
	}
	err = d.Read(t.Context(), &loader.Sample{Index: 5})
	if err == nil || !strings.Contains(err.Error(), "data_batch_3.bin") || !strings.Contains(err.Error(), "shrank") || errors.Is(err, io.EOF) {
		t.Errorf("err = %v", err)
	}
	// Within a page, the missing part of a map reads as zeros.
	if err := os.Truncate(filepath.Join(dir, "data_batch_3.bin"), Pixels-1000); err != nil {
		t.Fatal(err)
	}
	if err := d.Read(t.Context(), &loader.Sample{Index: 4}); err == nil || !strings.Contains(err.Error(), "shrank") {
		t.Errorf("err = %v", err)
	}
}

func TestConcurrent(t *testing.T) {
	d, err := Open("testdata/py2")
	if err != nil {
		t.Fatal(err)
	}
	exp := expected(t, "data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5")
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			var s loader.Sample
			for k := range 200 {
				s.Index = k % len(exp)
				if d.Read(context.Background(), &s) != nil || d.Decode(&s) != nil || s.Label != exp[s.Index].Label {
					t.Errorf("sample %d differs", s.Index)
				}
			}
		}()
	}
	wg.Wait()
}

func TestAllocs(t *testing.T) {
	d, err := Open("testdata/bin")
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	s := &loader.Sample{Index: 7}
	if n := testing.AllocsPerRun(100, func() {
		if d.Read(ctx, s) != nil || d.Decode(s) != nil {
			t.Fatal("failed")
		}
	}); n != 0 {
		t.Errorf("%v allocations a sample", n)
	}
}

// TestPlanes: with a transform that takes planes, a loader makes the same as Decode and Host.
// It still does after device_transforms was on for a while.
func TestPlanes(t *testing.T) {
	d, err := Open("testdata/bin")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	tf := transform.CIFARTrain()
	k := loader.Knobs{BatchSize: 3, InOrder: true, Shuffle: true}
	l, err := loader.New(loader.Options{Dataset: d, Transform: tf, Seed: 1, Knobs: k})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 12 {
		b, err := l.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, index := range b.Samples {
			s := loader.Sample{Index: int(index)}
			if err := errors.Join(d.Read(t.Context(), &s), d.Decode(&s)); err != nil {
				t.Fatal(err)
			}
			rng, record := loader.NewRNG(1, int(b.Epoch), s.Index), make([]int32, 4)
			want := make([]byte, Pixels)
			if b.Device {
				tf.Device(&s, &rng, want, record)
			} else {
				host := make([]float32, Pixels)
				tf.Host(&s, &rng, host)
				want = want[:0]
				for _, v := range host {
					want = binary.NativeEndian.AppendUint32(want, math.Float32bits(v))
				}
			}
			if got := b.Host[i*len(want) : (i+1)*len(want)]; !bytes.Equal(got, want) {
				t.Fatalf("batch %d, device %v: sample %d is not what Decode and the transform make of it", b.Seq, b.Device, index)
			}
		}
		b.Release()
		k.DeviceTransforms = !k.DeviceTransforms
		if err := l.Set(k); err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	d, err := Open("testdata/bin")
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	var s loader.Sample
	b.SetBytes(Pixels)
	b.ReportAllocs()
	for i := range b.N {
		s.Index = i % 10
		if err := d.Read(ctx, &s); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	d, err := Open("testdata/bin")
	if err != nil {
		b.Fatal(err)
	}
	var s loader.Sample
	if err := d.Read(context.Background(), &s); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(Pixels)
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Decode(&s); err != nil {
			b.Fatal(err)
		}
	}
}
