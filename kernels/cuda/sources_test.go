package cuda

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The committed PTX is that of the committed sources. check.sh compiles it again;
// this needs no compiler.
func TestPTXIsOfTheSources(t *testing.T) {
	var names []string
	for _, pattern := range []string{"build.sh", "*.cu", "*.h"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(found)
		names = append(names, found...)
	}
	var now strings.Builder
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&now, "%x  %s\n", sha256.Sum256(b), name)
	}
	was, err := os.ReadFile("ptx/SOURCES")
	if err != nil {
		t.Fatal(err)
	}
	if now.String() != string(was) {
		t.Errorf("the PTX was made of other sources: run kernels/cuda/build.sh and commit ptx/SOURCES with it\nwas:\n%snow:\n%s", was, &now)
	}
}
