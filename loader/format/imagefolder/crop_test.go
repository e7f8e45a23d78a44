package imagefolder

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"dev.gpustall/loader"
	"dev.gpustall/loader/transform"
)

// whole is a transform that does not say what it needs of an image.
type whole struct{ *transform.Pipeline }

func (whole) Needs(w, h int, _ loader.RNG) loader.Rect { return loader.Rect{W: w, H: h} }

// TestCropBeforeDecoding: batches have the same bytes, whether the decoder knows the
// crop or not.
func TestCropBeforeDecoding(t *testing.T) {
	root := t.TempDir()
	images, err := filepath.Glob("../../codec/testdata/*.jpg")
	if err != nil || len(images) < 20 {
		t.Fatalf("%d images, %v", len(images), err)
	}
	for i, name := range images {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(root, string(rune('a'+i%2)))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, device := range []bool{false, true} {
		crop := transform.ImageNetTrain(Size)
		var got [2][]byte
		for i, tr := range []loader.Transform{crop, whole{crop}} {
			l, err := loader.New(loader.Options{Dataset: d, Transform: tr, Seed: 3, Knobs: loader.Knobs{
				BatchSize: len(images), InOrder: true, Shuffle: true, DeviceTransforms: device,
			}})
			if err != nil {
				t.Fatal(err)
			}
			for range 3 { // epochs
				b, err := l.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				got[i] = append(got[i], b.Host...)
				b.Release()
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got[0], got[1]) || len(got[0]) == 0 {
			t.Errorf("device transforms %t: the batches differ", device)
		}
	}
}
