//go:build linux

package script

import (
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
