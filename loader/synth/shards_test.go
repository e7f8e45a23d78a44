package synth

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"dev.gpustall/loader"
	"dev.gpustall/loader/format/imagefolder"
	"dev.gpustall/loader/format/shards"
)

// TestShards: the shards hold the images that the folder holds, byte for byte.
func TestShards(t *testing.T) {
	dir := t.TempDir()
	o := Options{Samples: 150, Test: 10, Seed: 4}
	a, b := filepath.Join(dir, "folder"), filepath.Join(dir, "shards")
	if err := errors.Join(ImageFolder(t.Context(), a, o), Shards(t.Context(), b, o)); err != nil {
		t.Fatal(err)
	}
	files, err := imagefolder.Open(a)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := shards.Open(t.Context(), b, shards.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	if i := packed.Info(); i.Samples != 150 || !i.Synthetic || len(i.Classes) != Classes || i.Classes[3] != "disc" || packed.Contents() != "images in 2 shards" {
		t.Errorf("%+v, %s", i, packed.Contents())
	}
	of := map[string]loader.Sample{}
	for i := range 150 {
		s := loader.Sample{Index: i}
		if err := files.Read(t.Context(), &s); err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(files.Path(i))
		of[name[:6]] = s
	}
	for i := range 150 {
		s := loader.Sample{Index: i}
		if err := packed.Read(t.Context(), &s); err != nil {
			t.Fatal(err)
		}
		at := packed.Locate(i)
		if want := of[at[len(at)-6:]]; !bytes.Equal(want.Raw, s.Raw) || want.Label != s.Label {
			t.Errorf("%s: class %d, want %d", at, s.Label, want.Label)
		}
	}
}

// TestClips: clips are from 0 to 1, and something moves in them.
func TestClips(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "clips")
	if err := Clips(t.Context(), dir, Options{Samples: 10, Test: 10, Seed: 4}); err != nil {
		t.Fatal(err)
	}
	d, err := imagefolder.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if i := d.Info(); i.Samples != 10 || !i.Synthetic || i.Shape() != "16x64x64x3" || !i.Float || d.Contents() != "float16 (3,16,64,64) arrays, read as (C,T,H,W)" {
		t.Errorf("%+v, %s", i, d.Contents())
	}
	var s loader.Sample
	if err := errors.Join(d.Read(t.Context(), &s), d.Decode(&s)); err != nil {
		t.Fatal(err)
	}
	const plane = 2 * clipSide * clipSide
	if first, last := s.Pixels[:plane], s.Pixels[(clipFrames-1)*plane:clipFrames*plane]; bytes.Equal(first, last) {
		t.Error("nothing moves")
	}
	if max := 0x3c00; int(s.Pixels[1])<<8 > max { // 1 in float16
		t.Errorf("the first value is %#02x%02x", s.Pixels[1], s.Pixels[0])
	}
}
