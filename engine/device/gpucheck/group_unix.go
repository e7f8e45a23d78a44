//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup gives the process a group, which is killed as a whole: PyTorch's
// workers and compilers are children of children.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
