package advice

import (
	"fmt"
	"slices"

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
