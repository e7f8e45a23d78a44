package command

import (
	"os"
	"os/signal"
	"syscall"
)

// restoreAtCrash restores the terminal before QUIT (ctrl+\) or ABRT end the process
// with its stacks, and before a panic does: defer what it returns.
func restoreAtCrash(restore func()) (end func()) {
	ch, quit, done := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(ch, syscall.SIGQUIT, syscall.SIGABRT)
	go func() {
		defer close(done)
		select {
		case s := <-ch:
			_ = briefly(restore)
			signal.Reset(s)
			if p, err := os.FindProcess(os.Getpid()); err != nil || p.Signal(s) != nil {
				os.Exit(exitRuntime)
			}
		case <-quit:
		}
	}()
	return func() {
		if p := recover(); p != nil {
			_ = briefly(restore)
			panic(p)
		}
		signal.Stop(ch)
		close(quit)
		<-done
	}
}
