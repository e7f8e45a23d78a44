//go:build linux

package bridge

import (
	"slices"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// segments are the stretches of a training with the same knobs. A change is told in a message, and
// begins a segment when the loop's records have come to the time of that message.
type segments struct {
	out     *output
	control *Control
	of      *facts

	pending  []message // changes that are later than the loop's records so far
	segment  trace.Segment
	knobs    Knobs  // in force
	changing bool   // the first steps of the segment are excluded from its rates
	unused   bool   // the training has begun, and has had no step
	began    func() // called when it then has another loader than the one that was told first
}

// begin opens the first segment of a process.
func (s *segments) begin(since int64) {
	s.knobs = knobsOf(&s.of.loader)
	s.segment = trace.Segment{Start: since, Knobs: s.of.loader.list(s.knobs), Reason: "start"}
	if at := &s.out.before; at.segment > 0 {
		s.knobs.take(s.of.force)
		s.changing = true
		s.segment.Index, s.segment.FirstStep, s.segment.Knobs, s.segment.Reason = at.segment, at.step, s.of.loader.list(s.knobs), "restart"
	}
	s.out.recorder.Segment(s.segment)
}

// withSteps are the types of messages that apply from a step on.
var withSteps = []string{"applied", "moved", "anew", "refused", "device"}

// hear takes a message.
func (s *segments) hear(m *message) {
	if slices.Contains(withSteps, m.Type) {
		s.pending = append(s.pending, *m)
	}
}

// follow applies the changes that were told up to t. The loop's records have come to that
// time.
func (s *segments) follow(t int64) {
	for len(s.pending) > 0 && s.pending[0].T <= t {
		s.apply(&s.pending[0])
		s.pending = s.pending[1:]
	}
}

// apply opens a segment with the knobs that a message says are in force, or takes back knobs that
// could not be put in force.
func (s *segments) apply(m *message) {
	k, before, words := s.knobs, s.of.loader.list(s.knobs), ""
	switch m.Type {
	case "device":
		words = "device cpu -> " + m.CUDA
		if m.CUDA == "" {
			words = s.of.hello.CUDA + " is watched no more"
		}
		s.of.hello.take(&m.Hello)
		s.out.recorder.Device(s.of.hello.Device())
		s.describe(s.of.loader)
	case "refused":
		s.out.recorder.Specs(s.control.refuse(&m.Refused, m.Knobs["num_workers"]))
		return
	case "anew":
		l := s.of.loader
		l.Anew = true
		s.describe(l)
		return
	case "moved": // the loop trains with another loader now
		m.Loader.Anew = s.of.loader.Anew
		k = knobsOf(&m.Loader)
		m.Script = m.Script && !s.control.asks(k)
		s.describe(m.Loader)
		if s.unused && s.began != nil {
			s.began()
		}
	default:
		k.take(m.Knobs)
	}
	if now := s.of.loader.list(k); words == "" {
		words = knob.Diff(before, now)
		if knob.ValueOf(before, "num_workers") != "" && knob.ValueOf(now, "num_workers") == "" { // see trace.Snapshot.Left
			words = "its DataLoader -> none"
		}
	}
	if words == "" {
		return
	}
	if m.Script {
		words += trace.ByScript
		s.control.follow(k)
	}
	s.open(m, k, words)
}

// begins has the segment begin with a step, at a time: those before it are taken back.
func (s *segments) begins(step int32, at int64) {
	s.changing = false
	s.segment.Start, s.segment.FirstStep, s.segment.TransitionSteps = at, step+s.out.before.step, 0
	if s.out.recorder != nil {
		s.out.recorder.Segment(s.segment)
		if s.segment.Index > 0 {
			s.out.recorder.Baseline(s.segment.Index)
		}
	}
}

// open ends the segment and begins the next one, with knobs k.
func (s *segments) open(m *message, k Knobs, reason string) {
	if s.unused && m.Script { // it is how the training begins
		s.knobs, s.segment.Knobs = k, s.of.loader.list(k)
		s.begins(m.Step, m.T)
		return
	}
	s.settle()
	s.segment.End = m.T
	s.out.recorder.Segment(s.segment)
	s.knobs = k
	s.segment = trace.Segment{
		Index: s.segment.Index + 1, Start: m.T, FirstStep: m.Step + s.out.before.step, Knobs: s.of.loader.list(k), Reason: reason,
		ByScript: m.Script, Predicted: s.control.expected(k),
	}
	s.out.recorder.Segment(s.segment)
	if m.CUDA != "" { // earlier steps, in which a script may only look at its data, are no baseline
		s.out.recorder.Baseline(s.segment.Index)
	}
	s.changing = true
}

// describe makes l the loader, and updates the knobs' specs.
func (s *segments) describe(l Loader) {
	s.of.loader = l
	specs := s.of.specs()
	s.control.another(specs)
	s.out.recorder.Specs(specs)
}

// step counts a step. It returns the step's segment. flags has the flag of a transition if the change
// that began the segment still shows.
func (s *segments) step(shows bool) (segment int32, flags uint16) {
	s.unused = false
	if s.changing {
		if shows || s.segment.TransitionSteps == 0 {
			flags = trace.FlagTransition
			s.segment.TransitionSteps++
		} else {
			s.settle()
		}
	}
	return s.segment.Index, flags
}

// settle ends the transition under way.
func (s *segments) settle() {
	if s.changing {
		s.changing = false
		s.out.recorder.Segment(s.segment)
	}
}

// finish ends the last segment.
func (s *segments) finish() {
	s.settle()
	s.segment.End = s.out.recorder.Now()
	s.out.recorder.Segment(s.segment)
}
