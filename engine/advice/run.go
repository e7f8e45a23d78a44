package advice

import (
	"dev.gpustall/engine/stall"
	"dev.gpustall/engine/trace"
)

// Rows are rows of stall.Segments that a run is told by.
type Rows struct {
	Baseline int
	Last     int // the last that is a result: enough steps, and real batches (a ceiling is no setting to train with); else the last with steps
	Kept     int // of the settings to keep; the baseline's where there was nothing to choose from
}

// Overall advises on a run as a whole, for report, summary and list alike: its verdict is
// on the settings to keep.
func Overall(s *trace.Snapshot, rows []stall.SegmentStats) (Advice, Rows) {
	var at Rows
	if len(rows) == 0 {
		return Of(s, new(trace.Tally), nil), at
	}
	tally := func(i int) *trace.Tally { return s.Tally(rows[i].Segment.Index) }
	for i := range rows {
		if rows[i].Baseline {
			at.Baseline = i
		}
	}
	at.Last, at.Kept = at.Baseline, at.Baseline
	result := false
	for i := range rows {
		t := tally(i)
		if enough := rows[i].Steps >= MinSteps && t.Flags&trace.FlagCeiling == 0; enough || !result && t.All.Steps > 0 {
			at.Last, result = i, result || enough
		}
	}
	a := Of(s, tally(at.Last), rows)
	for i := range rows {
		if a.Keep.Text != "" && rows[i].Segment.Index == a.Keep.Segment {
			at.Kept = i
		}
	}
	if at.Kept != at.Last {
		a = Of(s, tally(at.Kept), rows)
	}
	return a, at
}
