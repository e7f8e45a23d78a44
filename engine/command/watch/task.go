package watch

import (
	"fmt"
	"runtime/debug"
	"time"

	"dev.gpustall/engine/base/timer"
	"dev.gpustall/engine/trace"
)

// Task is a goroutine beside a run. Its owner must call Stop.
type Task struct{ quit, done chan struct{} }

// Go starts f in a goroutine. f must return soon after quit is closed. A panic of f becomes a note
// about what.
func Go(r *trace.Recorder, what string, f func(quit <-chan struct{})) *Task {
	t := &Task{quit: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(t.done)
		defer Recover(r, what)
		f(t.quit)
	}()
	return t
}

// Every starts a goroutine that calls f once a period.
func Every(r *trace.Recorder, what string, period time.Duration, f func()) *Task {
	return Go(r, what, func(quit <-chan struct{}) { timer.Repeat(quit, period, func() bool { f(); return true }) })
}

// Stop closes quit and waits for the end of the goroutine.
func (t *Task) Stop() {
	close(t.quit)
	<-t.done
}

// Recover turns a panic of a goroutine beside the training into a note. The training goes on, and
// the terminal stays whole. It must be deferred.
func Recover(r *trace.Recorder, what string) {
	if p := recover(); p != nil {
		r.Note("error", fmt.Sprintf("%s: panic: %v\n%s", what, p, debug.Stack()))
	}
}
