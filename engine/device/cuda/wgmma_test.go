//go:build cuda && cgo && linux

package cuda

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The variants for sm_90a: their modules load, and give the reference's results,
// on a GPU of compute capability 9.0 (emulated; in a process of its own, for the
// driver has one compute capability).
func TestWgmmaVariants(t *testing.T) {
	if !emulated(open(t)) {
		t.Skip("TestVariants has them on a real GPU")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestVariants$/^bf16$/^conv/3x3|relu|accumulate/^wgmma", "-test.v")
	cmd.Env = append(os.Environ(), "GPUSTALL_EMU_SM=90", "GPUSTALL_EMU_DELAY=0")
	out, err := cmd.CombinedOutput()
	passed := strings.Count(string(out), "--- PASS: TestVariants/")
	if err != nil || passed < 40 {
		t.Errorf("%v, %d variants ran:\n%s", err, passed, out)
	}
}
