//go:build unix

package tui

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

func catchStop(c chan os.Signal) { signal.Notify(c, syscall.SIGTSTP) }

// suspend gives the terminal back, stops the job and takes the terminal again once the job
// continues. The suspend of bubbletea sends TSTP, which does not stop a Go program that was ever
// notified of it. So the other processes of the job (make, a script) get TSTP and this one STOP.
func (w *watcher) suspend() {
	if err := w.p.ReleaseTerminal(); err != nil {
		return
	}
	cont := make(chan os.Signal, 1)
	signal.Notify(cont, syscall.SIGCONT)
	signal.Ignore(syscall.SIGTSTP) // this process gets the signal below too
	w.away(true)
	_ = syscall.Kill(0, syscall.SIGTSTP)
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	<-cont // another thread may take the signal while this one runs on for a moment
	w.away(false)
	signal.Stop(cont)
	signal.Notify(w.stop, syscall.SIGTSTP)
	_ = w.p.RestoreTerminal()
}

// HasShell reports whether a shell can continue the process once it is stopped. There is no shell
// if the process leads its session (ssh host gpustall, docker run, a pane of tmux). Then the kernel
// ignores TSTP, and the screen would wait for CONT forever.
func HasShell() bool {
	sid, err := unix.Getsid(0)
	return err == nil && sid != unix.Getpgrp()
}
