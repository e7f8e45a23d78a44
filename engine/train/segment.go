package train

import (
	"slices"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// segments records the run's segments, one for each set of knobs in force, and the
// transition at the beginning of each. It belongs to the step loop.
type segments struct {
	timeline    *timeline
	specs       []knob.Spec // of the device's knobs
	open        trace.Segment
	transition  transition
	ineffective []string // warnings of the open segment about knobs without effect
}

// begin opens the segment of knobs, from a step on.
func (s *segments) begin(k Knobs, step int32, reason string, expected trace.Prediction) {
	rec := s.timeline.rec
	s.open = trace.Segment{
		Index: s.open.Index, Start: rec.Now(), FirstStep: step,
		Knobs: k.List(), Reason: reason, Predicted: expected,
	}
	rec.Segment(s.open)
	s.warn(k)
}

// end closes the open segment. The next one takes the next
// index.
func (s *segments) end() {
	s.endTransition()
	s.open.End = s.timeline.rec.Now()
	s.timeline.rec.Segment(s.open)
	s.open.Index++
}

// endTransition ends the transition under way, if there is one.
func (s *segments) endTransition() {
	t := &s.transition
	if !t.active {
		return
	}
	t.record(s.timeline.step, s.timeline.rec.Now())
	t.active = false
	s.open.TransitionSteps = int32(t.count)
	s.timeline.rec.Segment(s.open)
}

// warn notes knobs in force that have no effect. It does not repeat warnings of the
// previous segment.
func (s *segments) warn(k Knobs) {
	now := KnobTable.Ineffective(k, s.specs)
	for _, text := range now {
		if !slices.Contains(s.ineffective, text) {
			s.timeline.rec.Note("warn", text)
		}
	}
	s.ineffective = now
}
