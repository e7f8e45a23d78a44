package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// bundle runs the bundle of make gpu-bundle; make test-gpu-bundle sets the names.
func bundle(t *testing.T, libcuda string, args ...string) (r report, stdout, stderr string, code int) {
	t.Helper()
	dir := os.Getenv("GPUSTALL_BUNDLE")
	if dir == "" {
		t.Skip("no bundle: make test-gpu-bundle makes it and runs this")
	}
	out := t.TempDir()
	cmd := exec.Command(filepath.Join(dir, "gpu-check.sh"), args...)
	cmd.Dir = out
	python := os.Getenv("GPUSTALL_PYTHON")
	if python == "" {
		python = "none" // what some PyTorch that lies on this machine can do is not ours to test
	}
	cmd.Env = append(os.Environ(), "OUT="+out, "GPUSTALL_PYTHON="+python, "GPUSTALL_LIBCUDA="+libcuda, "GPUSTALL_EMU_DELAY=50",
		"GPUSTALL_EMU_SM=90", "GPUSTALL_EMU_TUNE=1") // as much of an H100 as there is
	var so, se strings.Builder
	cmd.Stdout, cmd.Stderr = &so, &se
	_ = cmd.Run() // its status is looked at
	b, err := os.ReadFile(filepath.Join(out, "gpu-check.json"))
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil && !os.IsNotExist(err) {
		t.Error(err)
	}
	return r, so.String(), se.String(), cmd.ProcessState.ExitCode()
}

func TestBundleNoDriver(t *testing.T) {
	_, stdout, stderr, code := bundle(t, filepath.Join(t.TempDir(), "missing"))
	if code != exitNoDevice || strings.Count(stderr, "\n") != 1 || stdout != "" || !strings.Contains(stderr, "install NVIDIA's driver") {
		t.Errorf("exit %d, said %q and %q", code, stdout, stderr)
	}
}

// A copy that lost its modes still runs.
func TestBundleWithoutModes(t *testing.T) {
	dir := os.Getenv("GPUSTALL_BUNDLE")
	if dir == "" {
		t.Skip("no bundle: make test-gpu-bundle makes it and runs this")
	}
	plain := t.TempDir()
	for _, name := range []string{"gpu-check.sh", "gpucheck"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(plain, name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("/bin/sh", filepath.Join(plain, "gpu-check.sh"))
	cmd.Env = append(os.Environ(), "GPUSTALL_LIBCUDA="+filepath.Join(plain, "missing"), "OUT="+t.TempDir(), "TMPDIR="+t.TempDir())
	out, _ := cmd.CombinedOutput() // its status is looked at
	if code := cmd.ProcessState.ExitCode(); code != exitNoDevice || !strings.Contains(string(out), "install NVIDIA's driver") {
		t.Errorf("exit %d, said %q", code, out)
	}
}

func TestBundleEmulated(t *testing.T) {
	r, stdout, stderr, code := bundle(t, os.Getenv("GPUSTALL_EMULATED"))
	t.Logf("%s%s", stdout, stderr)
	if code != 0 || !r.Complete || !r.Emulated || !r.Quick || r.Note != noteEmulated {
		t.Errorf("exit %d: complete %v, emulated %v, quick %v", code, r.Complete, r.Emulated, r.Quick)
	}
	if len(r.Parts) != len(parts()) {
		t.Errorf("%d parts of %d", len(r.Parts), len(parts()))
	}
	status := map[string]string{}
	for _, p := range r.Parts {
		status[p.Name] = p.Status
	}
	for _, name := range []string{"device", "probe", "tune-first", "fence", "occupancy", "train-224", "compile", "tune", "contract", "kernels", "device-rest", "follows-cpu", "driver", "train-fp32", "train-bf16", "train-tf32", "train-fp16", "precision", "copies", "launches", "ops", "end-to-end", "starved"} {
		if status[name] != statusOK {
			t.Errorf("%s: %q", name, status[name])
		}
	}
	if strings.Count(stdout, " kernels in ") != 1+len(types) {
		t.Errorf("the first tuning and that of %d types are not in the table", len(types))
	}
	_, table, _ := strings.Cut(stdout, "\n\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, l := range strings.Split(table, "\n") {
		if !strings.HasPrefix(l, "emulated | ") {
			t.Errorf("a line of the table does not say that it is emulated: %q", l)
		}
	}
}
