//go:build unix

package command

import (
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/trace/store"
)

// TestStopped: ctrl+z stops a run, and the time until it continues counts as a pause.
func TestStopped(t *testing.T) {
	const asleep = 300 * time.Millisecond
	file := filepath.Join(t.TempDir(), "stopped"+store.Ext)
	cmd := exec.Command(binary, "run", "--device", "emu:cosmoflow-h100", "--steps", "1000000", "--interval", "0.05", "--session", file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a job of its own
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer kill.Stop()
	buf := make([]byte, 1<<16)
	if _, err := pipe.Read(buf); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Signal(syscall.SIGTSTP)
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &ws, syscall.WUNTRACED, nil); err != nil || !ws.Stopped() {
		t.Fatalf("the process did not stop: %v, %v", ws, err)
	}
	time.Sleep(asleep)
	cmd.Process.Signal(syscall.SIGCONT)
	for range 3 { // it goes on
		if _, err := pipe.Read(buf); err != nil {
			t.Fatal(err)
		}
	}
	cmd.Process.Signal(syscall.SIGINT)
	for err == nil {
		_, err = pipe.Read(buf)
	}
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	s, err := store.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	if b := attribution.Sum(s.Snapshot(0, 1<<62).Recent); b.Paused < int64(asleep)*9/10 {
		t.Errorf("%v are a pause, the process slept for %v", time.Duration(b.Paused), asleep)
	}
}
