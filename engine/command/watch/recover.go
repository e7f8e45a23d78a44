package watch

import (
	"fmt"
	"runtime/debug"

	"dev.gpustall/engine/trace"
)

// Recover turns a panic of a side goroutine into a note, so that the training
// goes on and the terminal stays whole.
func Recover(r *trace.Recorder, what string) {
	if p := recover(); p != nil {
		r.Note("error", fmt.Sprintf("%s: panic: %v\n%s", what, p, debug.Stack()))
	}
}
