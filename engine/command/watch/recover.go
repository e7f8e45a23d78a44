package watch

import (
	"fmt"
	"runtime/debug"

	"dev.gpustall/engine/trace"
)

// Recover turns a panic of a goroutine beside the training into a note. The training goes on, and
// the terminal stays whole. It must be deferred.
func Recover(r *trace.Recorder, what string) {
	if p := recover(); p != nil {
		r.Note("error", fmt.Sprintf("%s: panic: %v\n%s", what, p, debug.Stack()))
	}
}
