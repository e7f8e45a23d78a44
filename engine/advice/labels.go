package advice

import "dev.gpustall/engine/trace"

// labels collects what makes the numbers other than a plain run's.
func labels(s *trace.Snapshot, t *trace.Tally) []string {
	flags := t.SteadyFlags
	if injecting(s, t) {
		flags |= trace.FlagInjected
	}
	var l []string
	for _, c := range []struct {
		on   bool
		name string
	}{
		{flags&trace.FlagInjected != 0, "injected"},
		{flags&trace.FlagCeiling != 0, "ceiling"},
		{s.Meta.Emulated || flags&trace.FlagModelled != 0, "emulated"},
		{s.Meta.Synthetic, "synthetic data"},
	} {
		if c.on {
			l = append(l, c.name)
		}
	}
	return l
}

// injecting reports whether the segment was asked to inject, though that may not
// have reached a step: its batches may lie in the queue, or its worker not exist.
func injecting(s *trace.Snapshot, t *trace.Tally) bool {
	n := len(s.Segments)
	if t.Steady.Steps == 0 { // what is in force says what is to come
		return n > 0 && s.Segments[n-1].Injects()
	}
	for i := range s.Segments {
		if s.Segments[i].Index == t.Segment {
			return s.Segments[i].Injects()
		}
	}
	return false
}
