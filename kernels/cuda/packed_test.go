package cuda

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// TestPackedPTX checks that each file of packed unpacks to the file of ptx with its name, and
// that neither folder has a file more. With -update it packs what differs.
func TestPackedPTX(t *testing.T) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	texts := ptxFiles(t)
	for _, name := range texts {
		text, err := os.ReadFile("ptx/" + name)
		if err != nil {
			t.Fatal(err)
		}
		path := "packed/" + name + ".zst"
		b, err := os.ReadFile(path)
		if err == nil {
			if b, err = unpack(b); err == nil && bytes.Equal(b, text) {
				continue
			}
		}
		if !*update {
			t.Errorf("%s is not ptx/%s packed (%v): run go test ./kernels/cuda -run Packed -update", path, name, err)
			continue
		}
		if err := os.WriteFile(path, enc.EncodeAll(text, nil), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	all, err := filepath.Glob("packed/*")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != len(texts) {
		t.Errorf("packed has %d files and ptx %d: delete those that ptx has not", len(all), len(texts))
	}
}

// ptxFiles are the names of the files of PTX.
func ptxFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("ptx/*.ptx")
	if err != nil || len(files) == 0 {
		t.Fatalf("no PTX: %v", err)
	}
	for i, f := range files {
		files[i] = filepath.Base(f)
	}
	return files
}

func BenchmarkUnpack(b *testing.B) {
	for b.Loop() {
		if _, err := PTX("conv_forward_bf16", 80); err != nil {
			b.Fatal(err)
		}
	}
}
