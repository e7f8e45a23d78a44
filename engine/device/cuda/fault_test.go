//go:build cuda && cgo && linux

package cuda

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cuda/driver"
	"dev.gpustall/kernels"
)

// A kernel that touches a wrong address fails every later call of its context.
// All of them must say so, none may wait for ever, and the process must be able to
// open the GPU anew.
func TestKernelFault(t *testing.T) {
	child(t, "TestKernelFault", "GPUSTALL_EMU_FAULT=6", func() {
		d := open(t)
		s, y, p := rig(t, d, 100) // three launches; the last of the next three fails
		e, err := d.NewEvent()
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(d.Launch(s, p), d.Record(s, e), d.Sync(e)); err != nil {
			t.Fatalf("before the fault: %v", err)
		}
		// The call that enqueues it succeeds; the one that waits tells.
		if err := d.Launch(s, p); err != nil {
			t.Fatal(err)
		}
		host := make([]byte, y.Size)
		for name, err := range map[string]error{
			"drain": refused(d.drain()), "sync": d.Sync(e), "launch": d.Launch(s, p), "copy in": d.CopyIn(s, y, host), "copy out": d.CopyOut(s, host, y),
			"record": d.Record(s, e), "capture": d.Capture(p, true),
		} {
			if f := errs.Explain(err); !strings.HasPrefix(f.Reason, "CUDA_ERROR_ILLEGAL_ADDRESS") || f.Hint != hint(driver.Error(700)) {
				t.Errorf("%s after the fault: %+v", name, f)
			}
		}
		if _, err := d.Prepare([]device.Launch{{Op: kernels.Zero{N: 4}, Bufs: []device.Buffer{y}}}); err == nil {
			t.Log("prepare needs nothing of the driver that was not there before")
		}
		if err := d.Close(); err == nil || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("close: %v, want one sentence about the fault", err)
		}
		again, err := Open(Config{})
		if err != nil {
			t.Fatalf("opening the GPU after the fault: %v", err)
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A driver from before the PTX says what to update.
func TestOldDriver(t *testing.T) {
	child(t, "TestOldDriver", "GPUSTALL_EMU_DRIVER=10020", func() {
		d := open(t)
		y, err := d.Alloc(16)
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.Prepare([]device.Launch{{Op: kernels.Zero{N: 16}, Bufs: []device.Buffer{y}}})
		if !errors.Is(err, driver.OldDriver) || !strings.Contains(err.Error(), "update NVIDIA's driver") {
			t.Errorf("%v, want what to update", err)
		}
	})
}

// child runs the test again in a process with env set, where f is called. It is
// for what the emulated driver alone does on command.
func child(t *testing.T, name, env string, f func()) {
	t.Helper()
	if os.Getenv("GPUSTALL_TEST_CHILD") == name {
		f()
		return
	}
	if !emulated(open(t)) {
		t.Skip("a real driver does not fail on command")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+name+"$", "-test.v", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), "GPUSTALL_TEST_CHILD="+name, env)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+name) {
		t.Errorf("%v:\n%s", err, out)
	}
}
