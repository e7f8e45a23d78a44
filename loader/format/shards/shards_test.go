package shards

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/loader"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// file is a file of a tar.
type file struct{ name, text string }

// tarOf is a tar of these files.
func tarOf(t testing.TB, files ...file) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		err := w.WriteHeader(&tar.Header{Name: f.name, Size: int64(len(f.text)), Mode: 0o644})
		if _, werr := w.Write([]byte(f.text)); err != nil || werr != nil {
			t.Fatal(err, werr)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// put writes a file below dir and returns its path.
func put(t testing.TB, dir, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, b, 0o644)); err != nil {
		t.Fatal(err)
	}
	return path
}

// picture is a PNG of one grey level.
func picture(t testing.TB, level byte) string {
	t.Helper()
	m := image.NewGray(image.Rect(0, 0, 2, 3))
	for i := range m.Pix {
		m.Pix[i] = level
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// array is a .npy of n float32 values.
func array(n int, value byte) string {
	head := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }", n)
	head += strings.Repeat(" ", 117-len(head)) + "\n"
	b := append([]byte("\x93NUMPY\x01\x00"), binary.LittleEndian.AppendUint16(nil, uint16(len(head)))...)
	b = append(b, head...)
	return string(append(b, bytes.Repeat([]byte{value}, 4*n)...))
}

func openAt(t testing.TB, path, cache string) (*Dataset, error) {
	t.Helper()
	d, err := Open(t.Context(), path, Options{Cache: cache})
	if err == nil {
		t.Cleanup(func() { d.Close() })
	}
	return d, err
}

// TestImages: samples of two shards are grouped by key, and have their bytes and classes, also
// with a kept index.
func TestImages(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	put(t, dir, "train/b.tar", tarOf(t, file{"x/7.seg.png", "no input"}, file{"x/7.png", picture(t, 3)}, file{"x/7.cls", "4\n"}))
	put(t, dir, "train/a.tar", tarOf(t, file{"./readme", "no dot"}, file{"n1/a.b/0.JPG", picture(t, 1)}, file{"n1/a.b/0.json", `{"label":2,"words":[1]}`},
		file{strings.Repeat("long/", 60) + "1.png", picture(t, 2)}, file{strings.Repeat("long/", 60) + "1.json", `{"label":9}`}, file{strings.Repeat("long/", 60) + "1.cls", "0"}))
	put(t, dir, "train/c.tar", tarOf(t))
	put(t, dir, "train/.hidden.tar", []byte("no tar"))
	put(t, dir, "val/v.tar", tarOf(t, file{"0.png", picture(t, 9)}, file{"0.cls", "1"}))
	for round := range 2 {
		d, err := openAt(t, dir, cache)
		if err != nil {
			t.Fatal(err)
		}
		if i := d.Info(); i.Samples != 3 || len(i.Classes) != 5 || i.Classes[4] != "4" || i.Synthetic || i.Shape() != "224x224x3" || i.Name != filepath.Base(dir) {
			t.Errorf("%+v", i)
		}
		if got := d.Contents(); got != "images in 2 shards" {
			t.Error(got)
		}
		for i, want := range []struct {
			level, label int
			at           string
		}{{1, 2, "a.tar#n1/a.b/0"}, {2, 0, "a.tar#" + strings.Repeat("long/", 60) + "1"}, {3, 4, "b.tar#x/7"}} {
			s := loader.Sample{Index: i}
			if err := errors.Join(d.Read(t.Context(), &s), d.Decode(&s)); err != nil {
				t.Fatal(err)
			}
			if int(s.Pixels[0]) != want.level || int(s.Label) != want.label || d.Locate(i) != want.at || s.H != 3 || s.W != 2 {
				t.Errorf("round %d: sample %d: %d, label %d, %s", round, i, s.Pixels[0], s.Label, d.Locate(i))
			}
		}
	}
	if kept, err := filepath.Glob(filepath.Join(cache, cacheFolder, "*.index")); len(kept) != 3 {
		t.Errorf("%d indexes are kept, %v", len(kept), err)
	}
	v, err := OpenTest(t.Context(), dir, Options{})
	if err != nil || v.Info().Samples != 1 {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestWebDataset: shards of WebDataset's own writer, with extended headers, are read.
func TestWebDataset(t *testing.T) {
	d, err := openAt(t, "testdata/webdataset-0.tar", "")
	if err != nil {
		t.Fatal(err)
	}
	if i := d.Info(); i.Samples != 3 || len(i.Classes) != 2 || i.Shape() != "2x4x5x3" || !i.Float || i.Synthetic {
		t.Errorf("%+v", i)
	}
	if got := d.Contents(); got != "float16 (3,2,4,5) arrays, read as (C,T,H,W), in 1 shard" {
		t.Error(got)
	}
	for i := range 3 {
		s := loader.Sample{Index: i}
		if err := errors.Join(d.Read(t.Context(), &s), d.Decode(&s)); err != nil {
			t.Fatal(err)
		}
		// i/4 in float16: 0, 1/4 and 1/2.
		if got := binary.LittleEndian.Uint16(s.Pixels); int(s.Label) != i%2 || got != []uint16{0, 0x3400, 0x3800}[i] || d.Locate(i) != fmt.Sprintf("webdataset-0.tar#clips/%03d", i) {
			t.Errorf("%s: label %d, %#x", d.Locate(i), s.Label, got)
		}
	}
}

// TestErrors: an error of a shard names the shard, the sample and the place, and says what to
// do.
func TestErrors(t *testing.T) {
	pic := picture(t, 1)
	good := tarOf(t, file{"k0.png", pic}, file{"k0.cls", "0"}, file{"k1.png", pic}, file{"k1.cls", "1"})
	edit := func(at int, b byte) []byte {
		out := bytes.Clone(good)
		out[at] ^= b
		return out
	}
	two := 1024 + (len(pic)+511)/512*512 // where the second sample's header begins, after a header, the picture and a .cls
	two += 512
	for name, tt := range map[string]struct {
		shard []byte
		want  []string
	}{
		"cut in a file":       {good[:len(pic)/2+512], []string{"in the middle of a file", "truncated"}},
		"cut in a header":     {good[:two+100], []string{"after sample k0", "truncated"}},
		"cut between files":   {good[:two], []string{"sample k0", "without the two empty blocks", "truncated"}},
		"damaged header":      {edit(two+3, 1), []string{"after sample k0", fmt.Sprintf("before byte %d", two+512), "checksum"}},
		"no tar":              {bytes.Repeat([]byte("no tar. "), 200), []string{"not a tar file"}},
		"empty file":          {nil, []string{"truncated"}},
		"no class":            {tarOf(t, file{"k0.png", pic}, file{"k0.cls", "0"}, file{"k1.png", pic}), []string{"sample k1 at byte 2560 has no class", ".cls"}},
		"class of letters":    {tarOf(t, file{"k0.png", pic}, file{"k0.cls", "cat"}), []string{"sample k0 at byte 1536", `"cat", not a number`}},
		"negative class":      {tarOf(t, file{"k0.png", pic}, file{"k0.cls", "-1"}), []string{"sample k0", "its class is -1"}},
		"nothing to see":      {tarOf(t, file{"k0.txt", "a"}, file{"k0.cls", "0"}), []string{"sample k0 at byte 512", "neither an image nor", ".txt .cls"}},
		"two inputs":          {tarOf(t, file{"k0.png", pic}, file{"k0.jpg", pic}), []string{"sample k0 at byte", "two images"}},
		"one extension twice": {tarOf(t, file{"k0.png", pic}, file{"k0.png", pic}), []string{"sample k0 at byte", "two files .png"}},
		"images and arrays":   {tarOf(t, file{"k0.png", pic}, file{"k1.npy", array(3, 0)}), []string{"sample k1 at byte", "one of .npy arrays among images"}},
		"no sample":           {tarOf(t), []string{"no sample"}},
		"bad array":           {tarOf(t, file{"k0.npy", "\x93NUMPY junk"}), []string{"sample k0 at byte 512", "numpy.save"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, "s.tar", tt.shard)
			_, err := openAt(t, dir, "")
			if err == nil {
				t.Fatal("it opens")
			}
			if errs.Explain(err).Hint == "" || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), dir) {
				t.Error(err)
			}
			for _, want := range append(tt.want, "") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

// TestSampleErrors: these errors appear only when the sample is read.
func TestSampleErrors(t *testing.T) {
	dir := t.TempDir()
	path := put(t, dir, "s.tar", tarOf(t, file{"a.npy", array(3, 0)}, file{"b.npy", array(4, 0)}))
	d, err := openAt(t, dir, "")
	if err != nil {
		t.Fatal(err)
	}
	s := loader.Sample{Index: 1}
	err = errors.Join(d.Read(t.Context(), &s), d.Decode(&s))
	for _, want := range []string{path, "sample b at byte 1536", "float32 (4,) where the data set's first is float32 (3,)", "one shape"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Read(over, &s); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	// The shard is replaced during the run. The next opening says so.
	d.files.close()
	if err := os.Chtimes(path, time.Now(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := d.Read(t.Context(), &s); err == nil || !strings.Contains(err.Error(), "has changed") {
		t.Error(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := d.Read(t.Context(), &s); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
}

// TestKeptIndex: a kept index is not used if it is damaged or of another shard of that name.
func TestKeptIndex(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	path := put(t, dir, "s.tar", tarOf(t, file{"a.npy", array(3, 0)}))
	first, err := openAt(t, dir, cache)
	if err != nil || first.Info().Samples != 1 {
		t.Fatal(err)
	}
	kept, _ := filepath.Glob(filepath.Join(cache, cacheFolder, "*"))
	if len(kept) != 1 {
		t.Fatal(kept)
	}
	put(t, dir, "s.tar", tarOf(t, file{"a.npy", array(3, 0)}, file{"b.npy", array(3, 0)}))
	for _, damage := range []func(){func() {}, func() { put(t, "", kept[0], []byte("junk")) }, func() {
		if err := os.Chmod(filepath.Dir(kept[0]), 0); err != nil {
			t.Fatal(err)
		}
	}} {
		damage()
		d, err := openAt(t, path, cache)
		if err != nil || d.Info().Samples != 2 {
			t.Errorf("%v", err)
		}
	}
	_ = os.Chmod(filepath.Dir(kept[0]), 0o700)
}

// TestManyShards: there may be more shards than stay open.
func TestManyShards(t *testing.T) {
	dir := t.TempDir()
	n := maxOpen + 20
	for i := range n {
		put(t, dir, fmt.Sprintf("%04d.tar", i), tarOf(t, file{"k.npy", array(1, byte(i))}))
	}
	d, err := openAt(t, dir, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, n - 1, n / 2, 0} {
		for j := range n {
			s := loader.Sample{Index: (i + j) % n}
			if err := d.Read(t.Context(), &s); err != nil || s.Raw[len(s.Raw)-1] != byte(s.Index) {
				t.Fatalf("sample %d: %v", s.Index, err)
			}
		}
	}
	if len(d.files.open) > maxOpen {
		t.Errorf("%d shards are open", len(d.files.open))
	}
}

// BenchmarkWalk walks over a shard of 1,000 samples of 100 KB, of which it reads the headers.
func BenchmarkWalk(b *testing.B) {
	var files []file
	for i := range 1000 {
		key := fmt.Sprintf("n%08d/%d", i%10, i)
		files = append(files, file{key + ".jpg", strings.Repeat("x", 100_000)}, file{key + ".cls", "7"})
	}
	path := put(b, b.TempDir(), "s.tar", tarOf(b, files...))
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if x, err := walk(&window{r: f, size: st.Size()}); err != nil || len(x.entries) != 1000 {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/sample")
}

// BenchmarkUnmarshal reads the kept index of as many samples.
func BenchmarkUnmarshal(b *testing.B) {
	x := index{kind: images}
	for i := range 1000 {
		x.keys = fmt.Appendf(x.keys, "n%08d/%d", i%10, i)
		x.entries = append(x.entries, entry{off: int64(i), size: 1, key: uint32(len(x.keys))})
	}
	kept := x.marshal(1<<20, 1)
	for b.Loop() {
		if _, err := unmarshal(kept, 1<<20, 1, 1<<20); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/sample")
}
