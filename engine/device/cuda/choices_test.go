package cuda

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFileChoices(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "choices.json")
	c, err := OpenChoices(path)
	if err != nil {
		t.Fatal(err)
	}
	c.Set("conv a", "64x64")
	c.Set("conv b", "128x64")
	c.Set("conv a", "128x128")
	if err := c.Err(); err != nil {
		t.Fatal(err)
	}
	again, err := OpenChoices(path)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"conv a": "128x128", "conv b": "128x64"} {
		if got, ok := again.Get(key); !ok || got != want {
			t.Errorf("%s: %q, %v; want %q", key, got, ok, want)
		}
	}
	if _, ok := again.Get("conv c"); ok {
		t.Error("found a choice that was never made")
	}
	for _, bad := range []string{"{", "null", "[1]"} {
		if err := os.WriteFile(path, []byte(bad), 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := OpenChoices(path)
		if (err == nil) != (bad == "null") {
			t.Errorf("%q: error %v", bad, err)
		}
		c.Set("x", "y") // usable all the same
		if v, _ := c.Get("x"); v != "y" {
			t.Errorf("%q: the choices do not work after it", bad)
		}
	}
}
