package advice

import (
	"fmt"
	"slices"

	"dev.gpustall/engine/evidence"
	"dev.gpustall/engine/stall"
	"dev.gpustall/engine/trace"
)

// undoRules take back what was tried and did not help.
var undoRules = []Rule{
	{Name: "undo", Back: true, Check: undo},
	{Name: "spare workers", Back: true, Check: spareWorkers},
}

// undo goes back from a value that measured slower than the one before it.
func undo(s *situation) (f Finding, ok bool) {
	i := slices.IndexFunc(s.trials, func(t Trial) bool { return t.Segment == s.segment })
	if i < 0 {
		return f, false
	}
	t := &s.trials[i]
	f = s.turn(t.Knob, t.From, fmt.Sprintf("%s %s measured %s throughput", t.Knob, t.To, &t.Change.Throughput))
	f.Share = 1
	return f, t.Outcome == Loss && t.To == s.knob(t.Knob)
}

// spareWorkers takes back what bought nothing.
func spareWorkers(s *situation) (f Finding, ok bool) {
	fewer, ok := s.measuredSame("num_workers")
	if !ok || fewer >= s.workers {
		return f, false
	}
	f = s.turn("num_workers", fmt.Sprint(fewer), "it measured the same, and each worker holds memory")
	return f, s.flags&trace.FlagCeiling == 0
}

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
	return fmt.Sprintf("let %s %s and %s take turns (%s)", f.Knob, f.From, f.Value, evidence.Turns)
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
