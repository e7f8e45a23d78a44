package advice

import (
	"slices"

	"dev.gpustall/engine/stall"
	"dev.gpustall/engine/trace"
)

// Rows are rows of stall.Segments that a run is told by.
type Rows struct {
	Baseline int
	// Last is the last that is a result: enough steps, and real batches (a ceiling is no
	// setting to train with). Where none is, it is the last with steps.
	Last int
	Kept int // of the settings to keep; the baseline's where there was nothing to choose from
}

// Overall advises on a run as a whole, for report, summary and list alike: its verdict is
// on the settings to keep.
func Overall(s *trace.Snapshot, rows []stall.SegmentStats) (Advice, Rows) {
	if len(rows) == 0 {
		return Of(s, new(trace.Tally), nil), Rows{}
	}
	first := baseline(rows)
	at := Rows{Baseline: first, Last: first, Kept: first}
	result := false
	for i := range rows {
		t := s.Tally(rows[i].Segment.Index)
		if counts := rows[i].Steps >= enough(s) && t.Flags&trace.FlagCeiling == 0; counts || !result && t.All.Steps > 0 {
			at.Last, result = i, result || counts
		}
	}
	if k := keep(s, rows); k.Text != "" {
		at.Kept = slices.IndexFunc(rows, func(r stall.SegmentStats) bool { return r.Segment.Index == k.Segment })
	}
	return Of(s, s.Tally(rows[at.Kept].Segment.Index), rows), at
}
