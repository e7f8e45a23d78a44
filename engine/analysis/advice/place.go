package advice

import (
	"dev.gpustall/engine/analysis/lines"
	"dev.gpustall/engine/trace"
)

// Place says where a run spends its time, in as few words as a table has room for.
type Place struct {
	Waits   string // for which data, where it waits for data: "transforming"
	Loading string // the line of code that takes most of loading; empty where that is not known
	Script  string // the line of code that takes most of the step loop
}

// At returns the place for steps of one segment.
func At(s *trace.Snapshot, t *trace.Tally) (p Place) {
	if v := Judge(s, t); v.Group == trace.GroupData {
		p.Waits = v.Dominant.Info().For
	}
	costs := lines.Of(s, t.Segment, 1)
	if c, ok := lines.Most(costs, trace.Loading); ok {
		p.Loading = c.String()
	}
	if c, ok := lines.Most(costs, trace.InStep); ok {
		p.Script = c.String()
	}
	return p
}
