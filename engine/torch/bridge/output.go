//go:build linux

package bridge

import "dev.gpustall/engine/trace"

// output takes the spans and steps of a process. They go to the session if it is about the process,
// and otherwise nowhere.
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
