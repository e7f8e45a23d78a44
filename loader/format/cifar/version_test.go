package cifar

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dev.gpustall/loader"
)

// TestCIFAR100: both versions, as folders and as archives, have the fine class of each
// sample.
func TestCIFAR100(t *testing.T) {
	for _, v := range versions[2:] {
		from := map[bool]string{false: "bin100", true: "py100"}[v.python]
		dir := t.TempDir()
		packed := filepath.Join(dir, v.archive)
		archive(t, from, v.dir, packed)
		for _, path := range []string{filepath.Join("testdata", from), packed, dir} {
			for split, open := range map[string]func(string) (*Dataset, error){"train": Open, "test": OpenTest} {
				d, err := open(path)
				if err != nil {
					t.Fatal(err)
				}
				want := expectedIn(t, "testdata/expected100.json", split)
				if i := d.Info(); i.Name != "CIFAR-100" || i.Format != v.format || len(i.Classes) != 100 || i.Classes[99] != "fine 99" || i.Samples != len(want) {
					t.Errorf("%s: %+v", path, i)
				}
				for i, w := range want {
					s := loader.Sample{Index: i}
					if err := d.Read(context.Background(), &s); err != nil {
						t.Fatal(err)
					}
					if sum := sha256.Sum256(s.Raw); s.Label != w.Label || hex.EncodeToString(sum[:]) != w.SHA256 {
						t.Errorf("%s, %s %d: class %d, want %d", path, split, i, s.Label, w.Label)
					}
				}
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
	// Other data may have files with such names.
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "train"), []byte("words"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(other); !errors.Is(err, ErrNotCIFAR) || !strings.Contains(err.Error(), "cifar-100-python.tar.gz") {
		t.Error(err)
	}
}
