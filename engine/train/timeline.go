package train

import (
	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/trace"
)

// timeline records what the step loop and the device did, as spans. It belongs to the
// step loop.
type timeline struct {
	rec                 *trace.Recorder
	step, copy, compute *trace.Track
}

func newTimeline(rec *trace.Recorder) timeline {
	return timeline{rec, rec.Track(trace.TrackStep), rec.Track(trace.TrackCopy), rec.Track(trace.TrackCompute)}
}

// span records what the step loop did from s.Start until now.
func (t *timeline) span(s trace.Span) {
	s.End = t.rec.Now()
	t.step.Record(s)
}

// woken records a wait of the step loop that began at s.Start. What the loop waited for
// was there at ready. If the loop went on much later than that, it had no core, and the
// rest is recorded as starved.
func (t *timeline) woken(s trace.Span, ready int64) {
	now := t.rec.Now()
	s.End = now
	if ready = max(ready, s.Start); now-ready > int64(host.WakeLatency) {
		if s.End = ready; ready > s.Start {
			t.step.Record(s)
		}
		s.Start, s.End, s.Kind = ready, now, trace.KindStarved
	}
	t.step.Record(s)
}
