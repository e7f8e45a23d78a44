package format

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dev.gpustall/loader"
	"dev.gpustall/loader/synth"
)

// TestOpen: everything that synth makes is recognised, and a sample fits its transform.
func TestOpen(t *testing.T) {
	ctx, o := context.Background(), synth.Options{Samples: 20, Test: 10, Seed: 1}
	tests := []struct {
		format string
		make   func(dir string) error
		test   int // samples in the evaluation split; 0: it has none
	}{
		{"cifar10-binary", func(dir string) error { return synth.CIFAR10(ctx, dir, o) }, 10},
		{"cifar10-python", func(dir string) error { return synth.CIFAR10Python(ctx, dir, o) }, 10},
		{"imagefolder", func(dir string) error { return synth.ImageFolder(ctx, dir, o) }, 10},
		{"shards", func(dir string) error { return synth.Shards(ctx, dir, o) }, 10},
		{"npy-folder", func(dir string) error { return synth.Clips(ctx, dir, o) }, 10},
		{"npy-mapped", func(dir string) error { return synth.Array(ctx, dir, o) }, 10},
		{"synthetic-records", func(dir string) error { return synth.Records(ctx, dir, 100, o) }, 0},
	}
	for _, tt := range tests {
		t.Run(tt.format, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if err := tt.make(dir); err != nil {
				t.Fatal(err)
			}
			for _, split := range []struct {
				open func(context.Context, string, Options) (loader.Dataset, loader.Transform, error)
				n    int
			}{{Open, 20}, {OpenTest, tt.test}} {
				d, tr, err := split.open(ctx, dir, Options{})
				if split.n == 0 {
					if !errors.Is(err, ErrUnknown) {
						t.Errorf("err = %v", err)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				in := d.Info()
				if in.Format != tt.format || !in.Synthetic || in.Samples != split.n {
					t.Errorf("Info = %+v", in)
				}
				s := loader.Sample{Index: split.n - 1}
				if err := errors.Join(d.Read(ctx, &s), d.Decode(&s)); err != nil {
					t.Fatal(err)
				}
				rng := loader.NewRNG(1, 0, s.Index)
				tr.Host(&s, &rng, make([]float32, in.Values()))
				at := loader.NewLayout(loader.InfoOf(d, tr), 1, true)
				tr.Device(&s, &rng, make([]byte, at.Sample), make([]int32, at.Record))
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(text, []byte("hello"), 0o644); err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(dir, "damaged")
	if err := os.Mkdir(damaged, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(damaged, "data_batch_1.bin"), []byte("hello"), 0o644); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.MkdirAll(filepath.Join(empty, "cats"), 0o755); err != nil {
		t.Fatal(err)
	}
	bare := filepath.Join(dir, "bare")
	if err := os.Mkdir(bare, 0o755); err != nil {
		t.Fatal(err)
	}
	packed := filepath.Join(dir, "packed")
	for _, name := range []string{"train/000.tar.xz", "readme.txt"} {
		path := filepath.Join(packed, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "no such file or folder",
		text:                       "looked for CIFAR-10",
		bare:                       "the folder is empty; ",
		packed:                     "000.tar.xz is compressed by a method that is not read; unpack it, or compress it with gzip or zstd",
		damaged:                    "5 bytes is not a whole number",
		empty:                      "cats holds no image",
	} {
		d, tr, err := Open(t.Context(), path, Options{})
		if err == nil || d != nil || tr != nil {
			t.Errorf("%s: %v, %v, %v", path, d, tr, err)
			continue
		}
		if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %q does not say %q", path, err, want)
		}
	}
}

// TestLeftArchives: an image folder beside the archives it was unpacked from is an image
// folder. Shards beside a folder of other things are shards.
func TestLeftArchives(t *testing.T) {
	ctx, o := t.Context(), synth.Options{Samples: 20, Test: 10, Seed: 1}
	dir := t.TempDir()
	images, packed := filepath.Join(dir, "images"), filepath.Join(dir, "packed")
	if err := errors.Join(synth.ImageFolder(ctx, images, o), synth.Shards(ctx, packed, o),
		os.WriteFile(filepath.Join(images, "train", "images.tar"), []byte("an archive"), 0o644),
		os.Mkdir(filepath.Join(packed, "train", "logs"), 0o755),
		os.WriteFile(filepath.Join(packed, "train", "logs", "a.txt"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{images: "imagefolder", packed: "shards"} {
		d, _, err := Open(ctx, path, Options{})
		if err != nil {
			t.Error(err)
			continue
		}
		if got := d.Info().Format; got != want {
			t.Errorf("%s is %s", path, got)
		}
		d.Close()
	}
}

// TestEvaluatedAlike: evaluation samples are normalised like training samples.
func TestEvaluatedAlike(t *testing.T) {
	for _, text := range []string{"rrc(24)|hflip", "rrc(24)|normalize(cifar10)", "rrc(24)|normalize"} {
		var mean, std [2][4]float32
		for i, eval := range []bool{false, true} {
			tr, err := imageTransform(anyImages, eval, Options{Transform: text})
			if err != nil {
				t.Fatal(err)
			}
			mean[i], std[i] = tr.Normalisation()
		}
		if mean[0] != mean[1] || std[0] != std[1] {
			t.Errorf("%s: trained with %v and %v, evaluated with %v and %v", text, mean[0], std[0], mean[1], std[1])
		}
	}
}
