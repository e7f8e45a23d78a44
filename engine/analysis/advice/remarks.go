package advice

import (
	"fmt"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// remarks returns for each row what its comparison with the baseline does not say. Most rows have
// no remark. The others have the first remark that applies:
//   - the same settings were measured before,
//   - the device or the host changed by itself,
//   - the page cache had what A had to read,
//   - a drift that was taken out of the change decides its answer,
//   - A is too short, so that more steps of the row would bring no answer,
//   - an A/B test tells the change.
func remarks(s *trace.Snapshot, rows []attribution.SegmentStats) []string {
	out := make([]string, len(rows))
	a := baseline(rows)
	for i := range rows {
		if out[i] = attribution.Repeated(rows, i); out[i] == "" && a >= 0 && i != a {
			if out[i] = Unearned(s, &rows[a], &rows[i], &rows[i].VsA); out[i] == "" {
				out[i] = cached(s, &rows[a], &rows[i])
			}
		}
		if out[i] == "" && a >= 0 && i != a {
			out[i] = rows[i].VsA.Throughput.LessDrift()
		}
		if c := &rows[i].VsA.Throughput; out[i] == "" && a >= 0 && i != a && c.Answer == stats.Unknown && c.Missing.OfA() && s.Last.Segment != rows[a].Segment.Index {
			out[i] = ShortBaseline
		}
		if out[i] == "" && rows[i].VsA.Pairs > 0 {
			out[i] = Tested
		}
	}
	return out
}

// Tested says that a row's change is not that of the two rows' rates.
const Tested = "by " + stats.Turns

// ShortBaseline says what to do where A ended before it had enough steps for a
// comparison.
const ShortBaseline = "A is too short to compare with: go back to it for a while, or let both take turns (" + stats.Turns + ")"

// Unearned says that the device's own time changed although no setting changed its work. Then no
// setting of the loader gets the credit. It is empty where that is not so.
func Unearned(s *trace.Snapshot, a, b *attribution.SegmentStats, c *stats.Comparison) string {
	if !deviceChanged(s, a, b, c) {
		return ""
	}
	return ByItself(&c.Busy) + ", which is no credit to the loader"
}

// ByItself says that the device's own time for a sample changed by itself.
func ByItself(busy *stats.Change) string {
	return fmt.Sprintf("the device's own time for a sample changed by %v although no knob of it did: the device or the host changed", busy)
}

// cached says that a's data came from storage, and the data of the faster b from the page cache,
// as in a first epoch and a later one. It is empty where that is not so, or where both took turns.
func cached(s *trace.Snapshot, a, b *attribution.SegmentStats) string {
	c := &b.VsA
	if c.Throughput.Ratio <= 1 || c.ByTurns() != "" || a.DataShare < moderate {
		return ""
	}
	once, known := storageASample(s, a)
	again, too := storageASample(s, b)
	if !known || !too || 10*again > once || once*float64(a.Breakdown.Samples) < leastStorage {
		return ""
	}
	return fmt.Sprintf("A read ~%s a sample from storage and this ~%s: part of the difference may be the page cache, which %s (both take turns) tells",
		units.Prose.Bytes(int64(once)), units.Prose.Bytes(int64(again)), stats.Turns)
}

// storageASample returns how many bytes of a sample came from storage, on average.
func storageASample(s *trace.Snapshot, r *attribution.SegmentStats) (bytes float64, known bool) {
	end := r.Segment.End
	if end == 0 {
		end = s.Now
	}
	rate, _, n := s.GaugeOver(trace.GaugeDiskOurs, r.Segment.Start, end)
	return rate / r.SamplesPerSecond, n > 0 && r.SamplesPerSecond > 0
}
