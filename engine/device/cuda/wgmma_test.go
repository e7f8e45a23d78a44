//go:build cuda && cgo && linux

package cuda

import (
	"os"
	"os/exec"
	"regexp"
	"testing"
)

// TestWgmmaVariants: the modules of the variants for sm_90a load and give the
// reference's results on an emulated GPU of compute capability 9.0. The test runs in a
// process of its own, because the driver has one compute capability.
func TestWgmmaVariants(t *testing.T) {
	if !emulated(open(t)) {
		t.Skip("TestVariants has them on a real GPU")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestVariants$/^bf16$/^conv/(3x3|relu|accumulate|deep)/^wgmma", "-test.v")
	// With so many multiprocessors some split their depth.
	cmd.Env = append(os.Environ(), "GPUSTALL_EMU_SM=90", "GPUSTALL_EMU_PROCESSORS=132", "GPUSTALL_EMU_DELAY=0")
	out, err := cmd.CombinedOutput()
	passed := regexp.MustCompile(`--- PASS: TestVariants/\S+/wgmma\w+`).FindAll(out, -1)
	split := regexp.MustCompile(`s\dk\d+$`)
	parts := 0
	for _, line := range passed {
		if split.Match(line) {
			parts++
		}
	}
	if err != nil || len(passed) < 50 || parts < 2 {
		t.Errorf("%v, %d variants ran, of which %d in parts:\n%s", err, len(passed), parts, out)
	}
}
