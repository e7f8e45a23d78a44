//go:build cuda && cgo && linux

package cuda

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"dev.gpustall/engine/device"
)

// The driver is loaded once for a process, so what it may answer at its start is
// tried in processes of their own.
func TestDriverRefuses(t *testing.T) {
	if os.Getenv("GPUSTALL_TEST_OPEN") != "" {
		d, err := Open(Config{})
		if err == nil {
			_ = d.Close()
			t.Log("opened")
			return
		}
		if !errors.Is(err, device.ErrNoDevice) {
			t.Errorf("%v, want ErrNoDevice", err)
		}
		t.Log(err)
		return
	}
	if !emulated(open(t)) {
		t.Skip("a real driver does not refuse on command")
	}
	for _, c := range []struct{ name, env, want string }{
		{"it is there", "GPUSTALL_EMU_DELAY=0", "opened"},
		{"no library", "GPUSTALL_LIBCUDA=/nonexistent/libcuda.so.1", "install NVIDIA's driver"},
		{"cuInit fails", "GPUSTALL_EMU_INIT=100", "does not start: cuInit: CUDA_ERROR_NO_DEVICE"},
		{"no GPU", "GPUSTALL_EMU_DEVICES=0", "CUDA_VISIBLE_DEVICES"},
		{"an old GPU", "GPUSTALL_EMU_SM=61", "7.0 (Volta)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestDriverRefuses$", "-test.v")
			cmd.Env = append(os.Environ(), "GPUSTALL_TEST_OPEN=1", c.env)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%v; want %q in:\n%s", err, c.want, out)
			}
		})
	}
}
