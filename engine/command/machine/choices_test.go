package machine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/adrg/xdg"
)

// TestChoices: a choice is in the file when Set returns, so that it survives a run that crashes.
func TestChoices(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "autotune.json")
	c := loadChoices(path)
	c.Set("gpu, kernels 1: conv {N:1}", "mma 5 6")
	c.Set("gpu, kernels 1: conv bf16 variant wgmma", "it hangs")
	again := loadChoices(path)
	if v, ok := again.Get("gpu, kernels 1: conv {N:1}"); !ok || v != "mma 5 6" {
		t.Errorf("stored %q, %v", v, ok)
	}
	again.Set("gpu, kernels 1: conv bf16 variant wgmma", "")
	if v, ok := loadChoices(path).Get("gpu, kernels 1: conv bf16 variant wgmma"); ok {
		t.Errorf("an empty value is kept as %q", v)
	}
	// New kernels replace the choices of older ones, but only of the same GPU and shape.
	again.Set("gpu, kernels 1: conv {N:2}", "simt 1")
	again.Set("other gpu, kernels 1: conv {N:1}", "simt 2")
	again.Set("gpu, kernels 2: conv {N:1}", "simt 3")
	again = loadChoices(path)
	for key, want := range map[string]string{
		"gpu, kernels 1: conv {N:1}": "", "gpu, kernels 1: conv {N:2}": "simt 1", "other gpu, kernels 1: conv {N:1}": "simt 2", "gpu, kernels 2: conv {N:1}": "simt 3",
	} {
		if got, _ := again.Get(key); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	if err := os.WriteFile(path, []byte("{not JSON"), 0o644); err != nil {
		t.Fatal(err)
	}
	damaged := loadChoices(path)
	if n, wrong := damaged.Describe(); n != 0 || len(wrong) != 0 {
		t.Errorf("from a damaged file: %d choices and %v", n, wrong)
	}
	damaged.Set("gpu, kernels 1: conv {N:1}", "mma 5 6")
	if v, _ := loadChoices(path).Get("gpu, kernels 1: conv {N:1}"); v != "mma 5 6" {
		t.Errorf("stored %q in place of a damaged file", v)
	}
}

func TestTuningFindings(t *testing.T) {
	dir := xdg.CacheHome
	xdg.CacheHome = t.TempDir()
	t.Cleanup(func() { xdg.CacheHome = dir })
	if f := tuning(); len(f) != 1 || !strings.Contains(f[0].text, "no kernel has been tried") {
		t.Errorf("with no file: %+v", f)
	}
	c := loadChoices(choicesFile())
	c.Set("gpu, kernels 1: conv {N:1}", "mma 5 6")
	c.Set("gpu, kernels 1: conv {N:2}", "mma 5 6")
	c.Set("gpu, kernels 1: conv bf16 variant wgmma", "it computes y as 1 instead of 2")
	c.Set("gpu, kernels 2: family wgmma", "conv bf16 variant wgmma broke the GPU's context")
	f := tuning()
	if len(f) != 3 || !strings.Contains(f[2].text, "family wgmma: conv bf16") || !strings.Contains(f[0].text, "2 kernel shapes") || f[1].state != "note" || !strings.Contains(f[1].text, "variant wgmma: it computes") {
		t.Errorf("%+v", f)
	}
}
