//go:build cuda && cgo && linux

package cuda

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"dev.gpustall/engine/device"
)

// The driver is loaded once for a process, so what it may answer at its start is
// tried in processes of their own.
func TestDriverRefuses(t *testing.T) {
	if n := os.Getenv("GPUSTALL_TEST_OPEN"); n != "" {
		ordinal, err := strconv.Atoi(n)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Open(Config{Ordinal: ordinal})
		if err == nil {
			t.Log(d.Info().Types, d.Info().TypeNote)
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
	for _, c := range []struct{ name, ordinal, env, want string }{
		{"it is there", "0", "GPUSTALL_EMU_DELAY=0", "opened"},
		{"no library", "0", "GPUSTALL_LIBCUDA=" + filepath.Join(t.TempDir(), "missing"), "install NVIDIA's driver"},
		{"cuInit fails", "0", "GPUSTALL_EMU_INIT=100", "does not start: cuInit: CUDA_ERROR_NO_DEVICE"},
		{"a stub", "0", "GPUSTALL_EMU_INIT=34", "toolkit's stub"},
		{"no GPU", "0", "GPUSTALL_EMU_DEVICES=0", "CUDA_VISIBLE_DEVICES"},
		{"the second GPU", "1", "GPUSTALL_EMU_DEVICES=2", "opened"},
		{"no second GPU", "1", "GPUSTALL_EMU_DEVICES=1", "there are 1, numbered from 0"},
		{"an old GPU", "0", "GPUSTALL_EMU_SM=61", "7.0 (Volta)"},
		{"tf32 is nowhere but on tensor cores", "0", "GPUSTALL_EMU_SM=75", "[fp32 fp16 bf16] on compute capability 7.5 bf16 without tensor cores"},
		{"Volta has neither", "0", "GPUSTALL_EMU_SM=70", "[fp32 fp16 bf16] on compute capability 7.0 fp16 and bf16 without tensor cores"},
		{"Ampere has all", "0", "GPUSTALL_EMU_SM=80", "[fp32 tf32 fp16 bf16] \n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestDriverRefuses$", "-test.v")
			cmd.Env = append(os.Environ(), "GPUSTALL_TEST_OPEN="+c.ordinal, c.env)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%v; want %q in:\n%s", err, c.want, out)
			}
		})
	}
}
