//go:build linux

package script

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestShown(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{"one\ntwo\n", []string{"one", "two"}},
		{" 10%|#\r 20%|##\r 30%|###", []string{" 30%|###"}}, // tqdm
		{"\x1b[1mbold\x1b[0m\tand \x1b[2Kerased\x07\r\n", []string{"bold    and erased"}},
	} {
		if diff := cmp.Diff(c.want, shown([]byte(c.text))); diff != "" {
			t.Errorf("%q: %s", c.text, diff)
		}
	}
}

// TestCopy: what a script prints faster than a terminal shows it does not keep Copy.
func TestCopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, bytes.Repeat([]byte("x"), 5*mostOutput), 0o600); err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	o := OpenOutput(path)
	for _, c := range []struct{ most, want int }{{mostOutput, mostOutput}, {mostOutput + 1, 3 * mostOutput}, {All, 5 * mostOutput}} {
		if o.Copy(&shown, c.most); shown.Len() != c.want {
			t.Errorf("%d bytes after at most %d more, want %d", shown.Len(), c.most, c.want)
		}
	}
}
