package advice

import (
	"fmt"

	"dev.gpustall/engine/evidence"
	"dev.gpustall/engine/stall"
	"dev.gpustall/engine/trace"
)

// again makes of a finding whose settings a segment had already, by whatever way it came to
// them, what there is left to do about them. It reports whether that is anything: what
// was no faster there is not worth trying again.
func (s *situation) again(f *Finding) bool {
	here, there := s.row(s.segment), s.had(f.Knob, f.Value)
	if here == nil || there == nil {
		return true
	}
	c := there.VsA
	if !here.Baseline {
		c = stall.Compare(s.rows, here, there)
	}
	t := &c.Throughput
	if t.Ratio <= 0 || !equalTerms(s.snap, here, there) {
		return true
	}
	had := fmt.Sprintf("segment %s had it, ", there.Name())
	switch doubt := Unearned(s.snap, here, there, &c); {
	case doubt != "":
		f.Remedy, f.Evidence = takeTurns(f), had+"but "+doubt
	case t.Answer == evidence.Different && t.Ratio > 1:
		f.Remedy, f.Evidence = "go back to "+f.Knob+" "+f.Value, fmt.Sprintf("%swith %v throughput", had, t)
	case t.Answer == evidence.Unknown && t.Ratio >= 1+moderate:
		f.Remedy, f.Evidence = takeTurns(f), fmt.Sprintf("%sand whether that is faster is %v", had, t)
	default:
		return false
	}
	return true
}

// takeTurns is the remedy where a value looks better, and that is not known.
func takeTurns(f *Finding) string {
	return fmt.Sprintf("let %s %s and %s take turns (A-B-A)", f.Knob, f.From, f.Value)
}

// row is a segment's; nil where it has none.
func (s *situation) row(segment int32) *stall.SegmentStats {
	for i := range s.rows {
		if s.rows[i].Segment.Index == segment {
			return &s.rows[i]
		}
	}
	return nil
}

// had is the last segment with the settings in force but for a knob, which had this value;
// nil where none has enough steps.
func (s *situation) had(knob, value string) *stall.SegmentStats {
	for i := len(s.rows) - 1; i >= 0; i-- {
		r := &s.rows[i]
		if name, alone := changedAlone(s.knobs, r.Segment.Knobs); r.Steps >= MinSteps && alone && name == knob && trace.KnobValue(r.Segment.Knobs, knob) == value {
			return r
		}
	}
	return nil
}
