package advice

import (
	"fmt"

	"dev.gpustall/engine/evidence"
	"dev.gpustall/engine/stall"
	"dev.gpustall/engine/trace"
)

// remarks are, for each row, what its comparison with the baseline does not say: that
// its settings were measured before, and what became of that, or that the device or the
// host changed by itself, or that more steps of them would not tell. Empty where there is
// nothing to say.
func remarks(s *trace.Snapshot, rows []stall.SegmentStats) []string {
	out := make([]string, len(rows))
	a := baseline(rows)
	for i := range rows {
		if out[i] = stall.Repeated(rows, i); out[i] == "" && a >= 0 && i != a {
			out[i] = Unearned(s, &rows[a], &rows[i], &rows[i].VsA)
		}
		if c := &rows[i].VsA.Throughput; out[i] == "" && a >= 0 && i != a && c.Answer == evidence.Unknown && c.Missing.OfA() && s.Last.Segment != rows[a].Segment.Index {
			out[i] = ShortBaseline
		}
	}
	return out
}

// ShortBaseline is what to do where A ended before it had enough steps to compare with.
const ShortBaseline = "A is too short to compare with: go back to it for a while, or let both take turns (" + evidence.Turns + ")"

// Unearned says that the device's own time changed although no setting of its work did,
// so that no setting of the loader gets the credit; empty where that is not so.
func Unearned(s *trace.Snapshot, a, b *stall.SegmentStats, c *evidence.Comparison) string {
	if !deviceChanged(s, a, b, c) {
		return ""
	}
	return ByItself(&c.Busy) + ", which is no credit to the loader"
}

// ByItself says of the device's own time for a sample that no knob changed it.
func ByItself(busy *evidence.Change) string {
	return fmt.Sprintf("the device's own time for a sample changed by %v although no knob of it did: the device or the host changed", busy)
}
