package advice

import (
	"slices"
	"strconv"

	"dev.gpustall/engine/stall"
	"dev.gpustall/engine/trace"
)

// Outcome is what trying a value of a knob showed.
type Outcome uint8

// The outcomes.
const (
	Unclear Outcome = iota // too few steps, or something else changed as well
	Gain
	Loss
	NoGain // as fast as before, as far as could be told
)

// Trial is one change of one knob alone.
type Trial struct {
	Segment        int32 // that it began
	Knob, From, To string
	Outcome        Outcome
	Change         stall.Comparison // of the segment against the one before
}

// Tried are the session's changes of one knob alone, in order: what is advised
// follows from them, live, in a replay and in a report alike.
func Tried(s *trace.Snapshot) []Trial {
	var out []Trial
	for i := 1; i < len(s.Segments); i++ {
		a, b := &s.Segments[i-1], &s.Segments[i]
		knob, alone := changedAlone(a.Knobs, b.Knobs)
		if !alone {
			continue
		}
		t := Trial{Segment: b.Index, Knob: knob, From: trace.KnobValue(a.Knobs, knob), To: trace.KnobValue(b.Knobs, knob)}
		ta, tb := s.Tally(a.Index), s.Tally(b.Index)
		t.Change = stall.Compare(ta, tb)
		const special = trace.FlagInjected | trace.FlagCeiling
		switch c := &t.Change; {
		case !c.OK, (ta.SteadyFlags^tb.SteadyFlags)&special != 0:
		case !c.Different:
			t.Outcome = NoGain
		case c.Ratio > 1:
			t.Outcome = Gain
		default:
			t.Outcome = Loss
		}
		out = append(out, t)
	}
	return out
}

// changedAlone names the knob that differs between two settings, if it is only one.
// prefetch_factor means nothing without workers, so that it comes and goes with them
// does not count.
func changedAlone(a, b []trace.Knob) (name string, alone bool) {
	inline := (trace.KnobValue(a, "num_workers") == "0") != (trace.KnobValue(b, "num_workers") == "0")
	n := 0
	for _, k := range b {
		if trace.KnobValue(a, k.Name) != k.Value && !(inline && k.Name == "prefetch_factor") {
			name = k.Name
			n++
		}
	}
	return name, n == 1
}

// refused reports whether a value was tried, bought nothing and was undone. Of a
// number, so are those beyond one that was tried in vain from this side, and, where
// it made no difference, those on the way to it.
func (s *situation) refused(knob, value string) bool {
	now := s.knob(knob)
	return slices.ContainsFunc(s.trials, func(t Trial) bool {
		if t.Knob != knob || t.To == now || t.Outcome != NoGain && t.Outcome != Loss {
			return false
		}
		ahead := between(now, value) > 0
		alike := between(t.From, t.To) > 0 == ahead && between(now, t.To) > 0 == ahead && between(now, value) != 0
		return t.To == value || alike && (t.Outcome == NoGain || beyond(now, t.To, value))
	})
}

// between is how far it is from one number to another; 0 when either is none.
func between(from, to string) int {
	a, err1 := strconv.Atoi(from)
	b, err2 := strconv.Atoi(to)
	if err1 != nil || err2 != nil {
		return 0
	}
	return b - a
}

// beyond reports whether value is a number further from now than to, on the same
// side of it.
func beyond(now, to, value string) bool {
	d, e := between(now, to), between(to, value)
	return d > 0 && e > 0 || d < 0 && e < 0
}

// exhausted reports whether more of a knob was tried and bought nothing.
func (s *situation) exhausted(knob string) bool {
	return slices.ContainsFunc(s.trials, func(t Trial) bool {
		return t.Knob == knob && between(t.From, t.To) > 0 && between(s.knob(knob), t.To) > 0 && (t.Outcome == NoGain || t.Outcome == Loss)
	})
}

// measuredSame is the smallest value of a knob that a trial against the value in
// force found no slower.
func (s *situation) measuredSame(knob string) (value int, found bool) {
	now := s.knob(knob)
	for _, t := range s.trials {
		if t.Knob != knob || t.Outcome != NoGain {
			continue
		}
		other := t.From
		switch now {
		case t.To:
		case t.From:
			other = t.To
		default:
			continue
		}
		if n, err := strconv.Atoi(other); err == nil && n > 0 && (!found || n < value) {
			value, found = n, true
		}
	}
	return value, found
}
