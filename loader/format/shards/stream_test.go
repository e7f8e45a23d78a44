package shards

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"dev.gpustall/loader"
	"dev.gpustall/loader/source"
	"dev.gpustall/loader/source/sourcetest"
	"dev.gpustall/loader/transform"
)

// zip compresses the shards of a folder into another one.
func zip(t testing.TB, dir string) string {
	t.Helper()
	out := t.TempDir()
	names, err := filepath.Glob(filepath.Join(dir, "*"+Ext))
	if err != nil || len(names) == 0 {
		t.Fatal(err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		put(t, out, filepath.Base(name)+".gz", zipped(t, b))
	}
	return out
}

func zipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err := w.Write(b)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return z.Bytes()
}

func zstded(t testing.TB, b []byte, o ...zstd.EOption) []byte {
	t.Helper()
	var z bytes.Buffer
	w, err := zstd.NewWriter(&z, append(o, zstd.WithEncoderConcurrency(1))...)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write(b)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return z.Bytes()
}

// TestZstd: shards compressed with zstd are read like those with gzip, also if both lie side
// by side and in several frames. The memory for unpacking them is planned.
func TestZstd(t *testing.T) {
	dir := t.TempDir()
	one, two := tarOf(t, file{"a.npy", array(3, 0)}), tarOf(t, file{"b.npy", array(3, 1)}, file{"c.npy", array(3, 2)})
	put(t, dir, "0.tar.zst", append(append([]byte("\x51\x2a\x4d\x18\x01\x00\x00\x00x"), zstded(t, two[:700])...), zstded(t, two[700:])...))
	put(t, dir, "1.tgz", zipped(t, one))
	d, err := openAt(t, dir, "")
	if err != nil {
		t.Fatal(err)
	}
	s := loader.FromStream(Stream{d})
	for i, want := range []string{array(3, 1), array(3, 2), array(3, 0)} {
		got := loader.Sample{Index: i}
		if err := s.Read(t.Context(), &got); err != nil || string(got.Raw) != want {
			t.Errorf("sample %d: %d bytes, %v", i, len(got.Raw), err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	k, i := loader.Knobs{BatchSize: 1}, s.Info()
	plan := k.Memory(i, 1).Workers
	if i.Unpacking = 0; plan-k.Memory(i, 1).Workers < streamLanes*maxWindow {
		t.Errorf("%d bytes of workers are planned for", plan)
	}
	noise := make([]byte, 3<<20)
	for i := range noise {
		noise[i] = byte(i * i >> 7)
	}
	for name, tt := range map[string]struct {
		shard []byte
		want  string
	}{
		"cut":     {zstded(t, one)[:40], "it is truncated"},
		"no zstd": {zipped(t, one), "it is not a zstd file"},
		"window":  {zstded(t, tarOf(t, file{"a.npy", string(noise)}), zstd.WithWindowSize(64<<20)), "zstd with a window of more than 8 MiB; compress it with a level of at most 19"},
		"xz":      {[]byte("\xfd7zXZ"), "it is not a zstd file"},
	} {
		dir := t.TempDir()
		path := put(t, dir, "s.tar.zst", tt.shard)
		if _, err := openAt(t, dir, ""); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "; ") {
			t.Errorf("%s: %v does not say %q", name, err, tt.want)
		}
	}
}

// TestCompressed: the samples equal those of the shards before compression, also with a kept
// index.
func TestCompressed(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	if _, _, err := Pack(t.Context(), folder(t, 30), dir, PackOptions{ShardSize: 16 << 10, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	plain, err := openAt(t, dir, "")
	if err != nil {
		t.Fatal(err)
	}
	out := zip(t, dir)
	for range 2 {
		d, err := openAt(t, out, cache)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Contents(); got != "images in 4 compressed shards" || !d.Compressed() || d.Info().Samples != 30 {
			t.Errorf("%s, %+v", got, d.Info())
		}
		s := loader.FromStream(Stream{d})
		for _, i := range []int{0, 1, 9, 8, 29, 2, 1} { // forwards, and back
			a, b := loader.Sample{Index: i}, loader.Sample{Index: i}
			if err := errors.Join(plain.Read(t.Context(), &a), s.Read(t.Context(), &b)); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(a.Raw, b.Raw) || a.Label != b.Label || s.Locate(i) != strings.Replace(plain.Locate(i), Ext, ".tar.gz", 1) {
				t.Errorf("sample %d: %d bytes, class %d, %s", i, len(b.Raw), b.Label, s.Locate(i))
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestCompressedArrays: the shape is the first sample's.
func TestCompressedArrays(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a.tgz", zipped(t, tarOf(t, file{"a.npy", array(3, 0)}, file{"b.npy", array(3, 1)})))
	d, err := openAt(t, dir, "")
	if err != nil {
		t.Fatal(err)
	}
	if i := d.Info(); i.Shape() != "1x3x1" || i.Samples != 2 {
		t.Errorf("%+v", i)
	}
}

// TestCompressedErrors: damage is found when the shard is opened, or when the sample is read.
func TestCompressedErrors(t *testing.T) {
	good := tarOf(t, file{"k0.npy", array(300, 0)}, file{"k1.npy", array(300, 1)})
	z := zipped(t, good)
	flipped := bytes.Clone(z)
	flipped[len(flipped)-6] ^= 1 // gzip's checksum
	for name, tt := range map[string]struct {
		shard []byte
		want  string
	}{
		"cut": {z[:len(z)-20], "it is truncated"}, "checksum": {flipped, "invalid checksum"},
		"no gzip": {good, "not a gzip file"}, "no tar": {zipped(t, bytes.Repeat([]byte("no tar. "), 200)), "header before byte 512 is damaged"},
		"cut tar": {zipped(t, good[:700]), "in the middle of a file"},
	} {
		dir := t.TempDir()
		path := put(t, dir, "s.tar.gz", tt.shard)
		if _, err := openAt(t, dir, ""); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "; ") {
			t.Errorf("%s: %v does not say %q", name, err, tt.want)
		}
	}
	dir := t.TempDir()
	put(t, dir, "a.tar", good)
	put(t, dir, "b.tar.gz", z)
	if _, err := openAt(t, dir, ""); err == nil || !strings.Contains(err.Error(), "b.tar.gz is compressed and a.tar is not") {
		t.Error(err)
	}
}

// TestCompressedDamage: a sample with a wrong checksum can be left out. The later samples of
// the shard are unharmed.
func TestCompressedDamage(t *testing.T) {
	dir := t.TempDir()
	packed, _, err := Pack(t.Context(), folder(t, 6), dir, PackOptions{ShardSize: 1 << 20, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, packed[0].Name))
	if err != nil {
		t.Fatal(err)
	}
	b[520] ^= 1 // in the first picture
	out := t.TempDir()
	path := put(t, out, "s.tar.gz", zipped(t, b))
	d, err := openAt(t, out, "")
	if err != nil {
		t.Fatal(err)
	}
	l, err := loader.New(loader.Options{Dataset: loader.FromStream(Stream{d}), Transform: transform.ImageNetTrain(Size), Epochs: 1, Knobs: loader.Knobs{BatchSize: 6, InOrder: true, OnError: loader.Skip}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got, err := l.Next(t.Context())
	if err != nil || got.N != 5 {
		t.Fatalf("%d samples, %v", got.N, err)
	}
	err = loader.FromStream(Stream{d}).Read(t.Context(), &loader.Sample{})
	for _, want := range []string{path, "at byte 512", "checksum"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// TestChosenForwards: a condition chooses the same samples of shards that are read forwards,
// from a store or compressed after they were packed.
func TestChosenForwards(t *testing.T) {
	const where = "label = 1 or width > 20 and not label = 0"
	sourcetest.NewS3(t)
	files, src, dir := reach(t), folder(t, 30), t.TempDir()
	for to, f := range map[string]*source.Files{dir: nil, prefix: files} {
		if _, _, err := Pack(t.Context(), src, to, PackOptions{To: f, ShardSize: 16 << 10, Seed: 1}); err != nil {
			t.Fatal(err)
		}
	}
	table, err := os.ReadFile(filepath.Join(dir, Metadata))
	if err != nil {
		t.Fatal(err)
	}
	zipped := zip(t, dir)
	put(t, zipped, Metadata, table)
	plain, err := Open(t.Context(), dir, Options{Where: where})
	if err != nil || plain.Info().Samples == 0 || plain.Info().Samples == 30 {
		t.Fatalf("%+v, %v", plain, err)
	}
	for _, path := range []string{zipped, prefix} {
		d, err := Open(t.Context(), path, Options{Files: files, Where: where})
		if err != nil || d.Info().Samples != plain.Info().Samples {
			t.Fatalf("%s: %v", path, err)
		}
		s := loader.FromStream(Stream{d})
		for i := range d.Info().Samples {
			a, b := loader.Sample{Index: i}, loader.Sample{Index: i}
			if err := errors.Join(plain.Read(t.Context(), &a), s.Read(t.Context(), &b)); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(a.Raw, b.Raw) || a.Label != b.Label {
				t.Errorf("%s: sample %d is another one", path, i)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
