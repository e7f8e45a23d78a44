//go:build unix

package tui

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

func catchStop(c chan os.Signal) { signal.Notify(c, syscall.SIGTSTP) }

// suspend gives the terminal back, stops the job and, once it is continued,
// takes the terminal again. bubbletea's own suspend sends TSTP, which a Go
// program that was ever notified of it can no longer stop for; so the others of
// the job (make, a script) get TSTP and this process STOP.
func (w *watcher) suspend() {
	if err := w.p.ReleaseTerminal(); err != nil {
		return
	}
	cont := make(chan os.Signal, 1)
	signal.Notify(cont, syscall.SIGCONT)
	signal.Ignore(syscall.SIGTSTP) // our own copy of the next line
	w.away(true)
	_ = syscall.Kill(0, syscall.SIGTSTP)
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	<-cont // another thread may take the signal, and this one run on for a moment
	w.away(false)
	signal.Stop(cont)
	signal.Notify(w.stop, syscall.SIGTSTP)
	_ = w.p.RestoreTerminal()
}

// HasShell reports whether someone can continue the process once it is stopped.
// Where it leads its session (ssh host gpustall, docker run, a pane of tmux) the
// kernel ignores TSTP, and the screen would wait for CONT for ever.
func HasShell() bool {
	sid, err := unix.Getsid(0)
	return err == nil && sid != unix.Getpgrp()
}
