//go:build cgo && linux

package nvml

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// old is a library from before GPM, MIG and much else: real ones lack whatever
// was added after them, and a call of what is missing ends the process.
const old = `
#include <string.h>
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = &nvmlInit_v2; return 0; }
int nvmlDeviceGetName(void *d, char *n, unsigned l) { strcpy(n, "Old GPU"); return 0; }
int nvmlSystemGetDriverVersion(char *n, unsigned l) { strcpy(n, "450.1"); return 0; }
int nvmlDeviceGetUtilizationRates(void *d, unsigned *u) { u[0] = 12; u[1] = 3; return 0; }
const char *nvmlErrorString(int r) { return "code"; }
`

func TestOldLibrary(t *testing.T) {
	if os.Getenv("GPUSTALL_TEST_OLD_NVML") != "" {
		s, err := Open(0)
		if err != nil {
			t.Fatal(err)
		}
		if got := readings(s); s.Name() != "Old GPU" || got[Util] != 12 || len(got) != 2 {
			t.Errorf("%s: %v", s.Name(), got)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		return
	}
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc to build an old library with")
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "old.c")
	if err := os.WriteFile(source, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(gcc, "-shared", "-fPIC", "-w", "-o", filepath.Join(dir, "libnvidia-ml.so.1"), source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestOldLibrary$", "-test.v")
	cmd.Env = append(os.Environ(), "GPUSTALL_TEST_OLD_NVML=1", "LD_LIBRARY_PATH="+dir)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestOldLibrary") {
		t.Errorf("%v:\n%s", err, out)
	}
}
