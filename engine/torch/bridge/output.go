//go:build linux

package bridge

import "dev.gpustall/engine/trace"

// output is where the spans and steps of a process go: to the session where that is about the process,
// and nowhere otherwise.
type output struct {
	recorder *trace.Recorder // nil: the session is about another process
}

// span records a span, unless it is empty.
func (o *output) span(t trace.TrackID, s trace.Span) {
	if o.recorder != nil && s.End > s.Start {
		o.recorder.Track(t).Record(s)
	}
}

// step records a step that is complete.
func (o *output) step(s trace.Step) {
	if o.recorder != nil {
		o.recorder.Step(s)
	}
}
