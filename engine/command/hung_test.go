package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dev.gpustall/engine/command/cli"
)

// images makes a folder of two classes with six small images each.
func images(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	image, err := os.ReadFile("../../loader/codec/testdata/grey.jpg")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		class := filepath.Join(dir, []string{"cat", "dog"}[i%2])
		if err := os.MkdirAll(class, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(class, fmt.Sprintf("%d.jpg", i)), image, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestTruncatedImage: a file that is cut off ends the training with its name, wherever it is cut.
func TestTruncatedImage(t *testing.T) {
	for _, name := range []string{"rgb.tif", "rgb.bmp", "lossy32x20.webp", "lossless.webp"} {
		whole, err := os.ReadFile("../../loader/codec/testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for i, size := range []int{len(whole) / 3, len(whole) - 1 - len(whole)/4} {
			dir := images(t)
			if err := os.WriteFile(filepath.Join(dir, "dog", name), whole[:size], 0o644); err != nil {
				t.Fatal(err)
			}
			r := gpustall(t, "run", "--device", "cpu", "--model", "cnn", "--data", dir, "--batch-size", "4", "--epochs", "1", "--num-workers", fmt.Sprint(2*i))
			if r.code != cli.ExitRuntime || !strings.Contains(r.stderr, filepath.Join("dog", name)) || !strings.HasPrefix(r.stdout, "failed: ") {
				t.Errorf("%s, %d of %d bytes: exit %d, %s%s", name, size, len(whole), r.code, r.stderr, r.stdout)
			}
		}
	}
}
