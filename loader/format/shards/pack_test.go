package shards

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dev.gpustall/loader"
	"dev.gpustall/loader/format/imagefolder"
)

// folder is an image folder of n samples in 3 classes.
func folder(t testing.TB, n int) *imagefolder.Dataset {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		put(t, dir, fmt.Sprintf("c%d/a.b%d.%s", i%3, i/9, []string{"png", "PNG", "jpg"}[i/3%3]), []byte(picture(t, byte(i))))
	}
	d, err := imagefolder.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// contents are the files of a folder and their sums.
func contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(b)
		out[e.Name()] = hex.EncodeToString(sum[:])
	}
	return out
}

// TestPack: every sample is there once, with its class, in shards of the size asked for.
func TestPack(t *testing.T) {
	const n = 60
	src, dir := folder(t, n), filepath.Join(t.TempDir(), "new")
	packed, before, err := Pack(t.Context(), src, dir, PackOptions{ShardSize: 16 << 10, Seed: 1})
	if err != nil || before != 0 || len(packed) < 5 {
		t.Fatal(packed, before, err)
	}
	there := contents(t, dir)
	for _, p := range packed {
		if there[p.Name] != p.SHA256 || p.Bytes > 17<<10 || p.Samples == 0 {
			t.Errorf("%+v, %s", p, there[p.Name])
		}
	}
	if len(there) != 2*len(packed)+2 { // each with its index, the table and the manifest
		t.Errorf("%d files for %d shards", len(there), len(packed))
	}
	d, err := openAt(t, dir, "")
	if err != nil {
		t.Fatal(err)
	}
	if i := d.Info(); i.Samples != n || strings.Join(i.Classes, " ") != "c0 c1 c2" {
		t.Errorf("%+v", i)
	}
	levels := map[byte]int32{}
	var first []int32 // classes, in order
	for i := range n {
		s := loader.Sample{Index: i}
		if err := errors.Join(d.Read(t.Context(), &s), d.Decode(&s)); err != nil {
			t.Fatal(err)
		}
		levels[s.Pixels[0]] = s.Label
		first = append(first, s.Label)
	}
	for i := range n {
		if label, ok := levels[byte(i)]; !ok || label != int32(i%3) {
			t.Errorf("sample %d has class %d, %v", i, label, ok)
		}
	}
	if text := fmt.Sprint(first); strings.Contains(text, "0 0 0 0 0 0 0 0") {
		t.Errorf("the classes are not mixed: %s", text)
	}
}

// TestPackGoesOn: packing is stopped at any moment, or killed, and repeated. The result has
// the same bytes as that of an uninterrupted call. Until then the folder is refused as data.
func TestPackGoesOn(t *testing.T) {
	const n = 60
	src := folder(t, n)
	o := PackOptions{ShardSize: 16 << 10, Seed: 1}
	whole := t.TempDir()
	if _, _, err := Pack(t.Context(), src, whole, o); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprint(contents(t, whole))
	for _, stop := range []int{1, 17, 35, n - 1} {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		left := o
		left.Progress = func(done, _ int) {
			if done == stop {
				cancel()
			}
		}
		if _, _, err := Pack(ctx, src, dir, left); !errors.Is(err, context.Canceled) {
			t.Fatalf("stopped at %d: %v", stop, err)
		}
		if _, err := openAt(t, dir, ""); err == nil || !strings.Contains(err.Error(), "interrupted") || !strings.Contains(err.Error(), "data pack again") {
			t.Errorf("stopped at %d: %v", stop, err)
		}
		put(t, dir, fmt.Sprintf(".shard-%06d.tar.tmp-1234", 3), []byte("half"))
		put(t, dir, "shard-000004.tar", []byte("named, and not in the journal"))
		j, err := os.OpenFile(filepath.Join(dir, Journal), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = j.WriteString(`{"name":"shard-0000`)
		if err := errors.Join(err, j.Close()); err != nil {
			t.Fatal(err)
		}
		_, before, err := Pack(t.Context(), src, dir, o)
		if err != nil || (before > 0) != (stop > 1) {
			t.Errorf("stopped at %d: %d shards were there, %v", stop, before, err)
		}
		if got := fmt.Sprint(contents(t, dir)); got != want {
			t.Errorf("stopped at %d:\n%s, want\n%s", stop, got, want)
		}
		if packed, before, err := Pack(t.Context(), src, dir, o); err != nil || before != len(packed) || before == 0 {
			t.Errorf("once more: %d of %d, %v", before, len(packed), err)
		}
	}
}

// TestPackRefuses: Pack never writes into a folder with other contents.
func TestPackRefuses(t *testing.T) {
	src := folder(t, 9)
	o := PackOptions{ShardSize: 16 << 10, Seed: 1}
	full := t.TempDir()
	put(t, full, "shard-000000.tar", []byte("somebody's"))
	done := t.TempDir()
	if _, _, err := Pack(t.Context(), src, done, o); err != nil {
		t.Fatal(err)
	}
	begun := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	if _, _, err := Pack(ctx, src, begun, PackOptions{ShardSize: 16 << 10, Seed: 2, Progress: func(int, int) { cancel() }}); err == nil {
		t.Fatal("it was not stopped")
	}
	cut := t.TempDir()
	packed, _, err := Pack(t.Context(), src, cut, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(cut, packed[0].Name), 100); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{full: "not empty: it holds shard-000000.tar", done: "other settings", begun: "begun there with other data", cut: "100 bytes where"} {
		was := o
		if dir == done {
			was.Seed = 3
		}
		if _, _, err := Pack(t.Context(), src, dir, was); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if got := contents(t, full); len(got) != 1 {
		t.Errorf("left behind: %v", got)
	}
}

// TestDamage: a flipped bit in a packed shard is found, wherever it is.
func TestDamage(t *testing.T) {
	src, dir := folder(t, 3), t.TempDir()
	packed, _, err := Pack(t.Context(), src, dir, PackOptions{ShardSize: 1 << 20, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, packed[0].Name)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[int]string{
		10:   "damaged",                  // in a name
		520:  "do not have the checksum", // in a picture
		1536: ".cls does not have the checksum",
	} {
		good[at] ^= 4
		put(t, dir, packed[0].Name, good)
		good[at] ^= 4
		d, err := openAt(t, dir, "")
		for i := 0; err == nil && i < 3; i++ {
			err = d.Read(t.Context(), &loader.Sample{Index: i})
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "byte") {
			t.Errorf("at %d: %v does not say %q", at, err, want)
		}
	}
}

// TestManifest: a missing shard is named, and so is one too many.
func TestManifest(t *testing.T) {
	src, dir := folder(t, 30), t.TempDir()
	if _, _, err := Pack(t.Context(), src, dir, PackOptions{ShardSize: 8 << 10, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	more := put(t, dir, "zzz.tar", tarOf(t))
	if _, err := openAt(t, dir, ""); err == nil || !strings.Contains(err.Error(), more) {
		t.Error(err)
	}
	if err := errors.Join(os.Remove(more), os.Remove(filepath.Join(dir, "shard-000001.tar"))); err != nil {
		t.Fatal(err)
	}
	if _, err := openAt(t, dir, ""); err == nil || !strings.Contains(err.Error(), "shard-000001.tar: the shard is missing") {
		t.Error(err)
	}
	put(t, dir, Manifest, []byte("{"))
	if _, err := openAt(t, dir, ""); err == nil || !strings.Contains(err.Error(), Manifest) {
		t.Error(err)
	}
}
