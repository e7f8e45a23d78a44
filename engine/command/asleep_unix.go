//go:build unix

package command

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"dev.gpustall/engine/command/watch"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui"
)

// watchStops tells the engine when ctrl+z stops the process and when it continues, so that the
// time between counts as a pause. It is for runs without a screen; the screen does that itself.
// end ends the watch.
func watchStops(suspend func(on bool), r *trace.Recorder) (end func()) {
	return onStop(r, func() {
		if tui.HasShell() {
			sleep(suspend)
		}
	})
}

// onStop calls f for each TSTP until end is called.
func onStop(r *trace.Recorder, f func()) (end func()) {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTSTP)
	task := watch.Go(r, "wait for ctrl+z", func(quit <-chan struct{}) {
		for {
			select {
			case <-quit:
				return
			case <-stop:
				f()
			}
		}
	})
	return func() { signal.Stop(stop); task.Stop() }
}

// sleep stops the process until someone continues it. It sends STOP, because a TSTP that is
// caught stops nothing.
func sleep(suspend func(on bool)) {
	cont := make(chan os.Signal, 1)
	signal.Notify(cont, syscall.SIGCONT)
	defer signal.Stop(cont)
	suspend(true)
	defer suspend(false)
	if syscall.Kill(os.Getpid(), syscall.SIGSTOP) == nil {
		<-cont // this thread may run for a moment after STOP
	}
}

// inFront reports whether the terminal is ours to read.
func inFront() bool {
	front, err := unix.IoctlGetInt(int(os.Stdin.Fd()), unix.TIOCGPGRP)
	return err != nil || front == unix.Getpgrp()
}
