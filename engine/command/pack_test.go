package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dev.gpustall/loader/synth"
)

// TestPack: a folder is packed, packed again at no cost, inspected and trained on. After a bit
// flip the run names the sample and the shard.
func TestPack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	images, out := filepath.Join(dir, "images"), filepath.Join(dir, "out")
	if err := synth.ImageFolder(t.Context(), images, synth.Options{Samples: 40, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"40 samples in 3 shards", "all of it was there already"} {
		if r := gpustall(t, "data", "pack", images, out, "--shard-size", "512KiB"); r.code != 0 || !strings.Contains(r.stdout, want) || !strings.Contains(r.stdout, filepath.Join(out, "val")) {
			t.Fatalf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
		}
	}
	if r := gpustall(t, "data", "inspect", out); r.code != 0 || !strings.Contains(r.stdout, "[synthetic]: shards (images in 3 shards), 40 samples in 10 classes, 224x224x3") {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if r := gpustall(t, "run", "--device", "emu:h100", "--data", out, "--batch-size", "8", "--num-workers", "2"); r.code != 0 || !strings.Contains(r.stdout, "5 steps, 40 samples") {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	shard := filepath.Join(out, "train", "shard-000001.tar")
	b, err := os.ReadFile(shard)
	if err != nil {
		t.Fatal(err)
	}
	b[600] ^= 1
	if err := os.WriteFile(shard, b, 0o644); err != nil {
		t.Fatal(err)
	}
	r := gpustall(t, "run", "--device", "emu:h100", "--data", out, "--batch-size", "8")
	if r.code != 1 || !strings.Contains(r.stderr, shard) || !strings.Contains(r.stderr, "at byte 512: its ") || !strings.Contains(r.stderr, "checksum") {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	for _, bad := range [][]string{{images, filepath.Join(images, "x")}, {images, out, "--shard-size", "1"}, {filepath.Join(dir, "none"), out}, {out, filepath.Join(dir, "y")}} {
		if r := gpustall(t, append([]string{"data", "pack"}, bad...)...); r.code == 0 || !strings.Contains(r.stderr, "; ") {
			t.Errorf("%v: exit %d\n%s", bad, r.code, r.stderr)
		}
	}
}

// TestClips: clips are loaded for a modelled step, and train a model that takes clips.
func TestClips(t *testing.T) {
	clips := filepath.Join(t.TempDir(), "clips")
	if r := gpustall(t, "data", "make", "clips", clips, "--samples", "12"); r.code != 0 || !strings.Contains(r.stdout, "npy-folder (float16 (3,16,64,64) arrays, read as (C,T,H,W)), 12 samples in 10 classes, 16x64x64x3") {
		t.Fatalf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if r := gpustall(t, "run", "--device", "emu:cosmoflow-h100", "--data", clips, "--num-workers", "1", "--batch-size", "4"); r.code != 0 || !strings.Contains(r.stdout, "3 steps, 12 samples") {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if r := gpustall(t, "run", "--device", "emu:h100", "--model", "cnn3d", "--data", clips, "--batch-size", "4"); r.code != 0 || !strings.Contains(r.stdout, "3 steps, 12 samples") {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if r := gpustall(t, "run", "--device", "cpu", "--data", clips, "--batch-size", "2", "--steps", "2"); r.code != 0 || !strings.Contains(r.stdout, "cnn3d on cpu") {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if r := gpustall(t, "run", "--device", "cpu", "--model", "resnet18", "--data", clips); r.code != 2 || !strings.Contains(r.stderr, "clips of 16x64x64x3; choose a model that takes clips: cnn3d") {
		t.Errorf("exit %d\n%s", r.code, r.stderr)
	}
	if r := gpustall(t, "run", "--device", "emu:cosmoflow-h100", "--data", clips, "--device-transforms"); r.code != 2 || !strings.Contains(r.stderr, "floating point") {
		t.Errorf("exit %d\n%s", r.code, r.stderr)
	}
}
