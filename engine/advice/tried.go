package advice

import (
	"slices"
	"strconv"

	"dev.gpustall/engine/evidence"
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
	Change         evidence.Comparison // of the segment against the last one before it that has enough steps
}

// tried are the session's changes of one knob alone, in order: what is advised
// follows from them, live, in a replay and in a report alike.
func tried(s *trace.Snapshot, rows []stall.SegmentStats) []Trial {
	var out []Trial
	for i := 1; i < len(rows); i++ {
		a, b := before(rows, i), &rows[i]
		knob, alone := changedAlone(a.Segment.Knobs, b.Segment.Knobs)
		if !alone {
			continue
		}
		t := Trial{
			Segment: b.Segment.Index, Knob: knob, Change: stall.Compare(rows, a, b),
			From: trace.KnobValue(a.Segment.Knobs, knob), To: trace.KnobValue(b.Segment.Knobs, knob),
		}
		if equalTerms(s, a, b) && !deviceChanged(s, a, b, &t.Change) {
			t.Outcome = outcome(&t.Change.Throughput)
		}
		out = append(out, t)
	}
	return out
}

// before is what segment i is compared with: the last one before it that has enough
// steps, so that a value passed through in a hurry stands in nobody's way; where none
// has, the one just before.
func before(rows []stall.SegmentStats, i int) *stall.SegmentStats {
	for j := i - 1; j >= 0; j-- {
		if rows[j].Stretch.Enough() {
			return &rows[j]
		}
	}
	return &rows[i-1]
}

func outcome(c *evidence.Change) Outcome {
	switch {
	case c.Answer == evidence.Same:
		return NoGain
	case c.Answer == evidence.Different && c.Ratio > 1:
		return Gain
	case c.Answer == evidence.Different:
		return Loss
	}
	return Unclear
}

// equalTerms reports whether two segments served real batches, with or without an
// injected bottleneck both.
func equalTerms(s *trace.Snapshot, a, b *stall.SegmentStats) bool {
	fa, fb := s.Tally(a.Segment.Index).Flags, s.Tally(b.Segment.Index).Flags
	return (fa|fb)&trace.FlagCeiling == 0 && (fa^fb)&trace.FlagInjected == 0
}

// deviceChanged reports whether the device's own time for a sample changed although
// no knob did that changes its work: then the device or the host did, and what else
// differs is no credit to a knob of the loader.
func deviceChanged(s *trace.Snapshot, a, b *stall.SegmentStats, c *evidence.Comparison) bool {
	if c.Busy.Answer != evidence.Different {
		return false
	}
	for _, k := range Changed(a.Segment.Knobs, b.Segment.Knobs) {
		if changesDevice(s.Meta.Specs, k.Name) {
			return false
		}
	}
	return true
}

// changesDevice reports whether a knob changes what the device computes for a sample.
func changesDevice(specs []trace.KnobSpec, knob string) bool {
	switch knob {
	case "batch_size", "device_transforms", "ceiling":
		return true
	}
	for i := range specs {
		if specs[i].Name == knob {
			return specs[i].Group == "engine"
		}
	}
	return false
}

// Chosen are the knobs of b that differ from a's by choice: prefetch_factor means nothing
// without workers, so that it comes and goes with them.
func Chosen(a, b []trace.Knob) []trace.Knob {
	inline := (trace.KnobValue(a, "num_workers") == "0") != (trace.KnobValue(b, "num_workers") == "0")
	return slices.DeleteFunc(Changed(a, b), func(k trace.Knob) bool { return inline && k.Name == "prefetch_factor" })
}

// changedAlone names the knob that was changed between two settings, if it is only one.
func changedAlone(a, b []trace.Knob) (name string, alone bool) {
	if c := Chosen(a, b); len(c) == 1 {
		return c[0].Name, true
	}
	return "", false
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
