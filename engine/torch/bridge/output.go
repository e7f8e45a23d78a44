//go:build linux

package bridge

import "dev.gpustall/engine/trace"

// output takes the spans and steps of a process. They go to the session if it is about the process,
// and otherwise nowhere.
type output struct {
	recorder *trace.Recorder // nil: the session is about another process
	before   before
}

// before is how far a session had come when the process began that it goes on with. A process counts from 0.
type before struct {
	segment, epoch, step, batch int32
	samples                     int64
}

// span records a span, unless it is empty.
func (o *output) span(t trace.TrackID, s trace.Span) {
	if o.recorder != nil && s.End > s.Start {
		if s.Step >= 0 {
			s.Step += o.before.step
		}
		if s.Batch >= 0 {
			s.Batch += o.before.batch
		}
		o.recorder.Track(t).Record(s)
	}
}

// step records a step that is complete.
func (o *output) step(s trace.Step) {
	if o.recorder != nil {
		s.Index += o.before.step
		s.Epoch += o.before.epoch
		s.Through += o.before.samples
		if s.Batch >= 0 {
			s.Batch += o.before.batch
		}
		o.recorder.Step(s)
	}
}
