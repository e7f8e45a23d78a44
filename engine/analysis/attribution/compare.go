package attribution

import (
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// Compare relates segment b to a. The other rows tell how long the host's steps stay correlated.
func Compare(rows []SegmentStats, a, b *SegmentStats) stats.Comparison {
	return stays(rows, a, b, stats.Compare(a.Stretch, b.Stretch, history(rows), stats.DefaultMargin))
}

// Between relates row b to row a for all who show it. It uses the experiment in which their
// settings took turns, or else their steps.
func Between(xs []Experiment, rows []SegmentStats, a, b *SegmentStats) stats.Comparison {
	return byTurns(xs, a, b, Compare(rows, a, b))
}

// AgainstTally relates the steady steps of a segment to those of row a. It is for segments of
// experiments, which have no row.
func AgainstTally(rows []SegmentStats, a *SegmentStats, t *trace.Tally) stats.Comparison {
	return stats.Compare(a.Stretch, StretchOf(t), history(rows), stats.DefaultMargin)
}

func history(rows []SegmentStats) (h stats.History) {
	for i := range rows {
		h.Learn(rows[i].Stretch)
	}
	return h
}

// byTurns compares b with a by the experiment in which their settings took turns, so that both met
// the same host. Where there is none, it returns c, the comparison by their steps.
func byTurns(xs []Experiment, a, b *SegmentStats, c stats.Comparison) stats.Comparison {
	switch x, reversed := Proof(xs, a.Segment.Knobs, b.Segment.Knobs); {
	case x == nil:
		return c
	case reversed:
		return x.Change.Reversed()
	default:
		return x.Change
	}
}

// firstLook is how many steps a growing segment has when it is compared for the first time.
const firstLook = 64

// stays keeps the answer of an earlier look, where the current look has none. This happens when
// the host's steps turn out to be correlated for longer than it seemed, so that the steps so
// far are too few.
//
// The intervals hold at all looks together (stats.Compare), so an answer stays valid once it is
// known. It is dropped only if what was measured since lies outside of its interval. So the ratio
// as measured now lies in the overlap of all these intervals.
//
// The looks are at powers of two of the later segment's steps, with what was known of the host by
// then. So a session has the same answers whenever it is read.
func stays(rows []SegmentStats, a, b *SegmentStats, now stats.Comparison) stats.Comparison {
	t := &now.Throughput
	if t.Answer != stats.Unknown || t.Ratio <= 0 || !a.Stretch.Enough() || !b.Stretch.Enough() {
		return now
	}
	sides := [2]stats.Stretch{a.Stretch, b.Stretch}
	later, side := b, 1
	if a.Segment.Index > b.Segment.Index {
		later, side = a, 0
	}
	var before stats.History
	for i := range rows {
		if rows[i].Segment.Index < later.Segment.Index {
			before.Learn(rows[i].Stretch)
		}
	}
	for n := later.Stretch.Steps; n >= firstLook; n = powerBelow(n) {
		sides[side] = stats.Measure(first(later.series, n))
		h := before
		h.Learn(sides[side])
		then := stats.Compare(sides[0], sides[1], h, stats.DefaultMargin)
		if c := &then.Throughput; c.Answer != stats.Unknown {
			if c.Lo <= t.Ratio && t.Ratio <= c.Hi {
				t.Answer, t.Missing = c.Answer, stats.Missing{}
				t.Lo, t.Hi = max(t.Lo, c.Lo), min(t.Hi, c.Hi)
			}
			return now
		}
	}
	return now
}

// powerBelow returns the largest power of two below n.
func powerBelow(n int) int {
	p := 1
	for 2*p < n {
		p *= 2
	}
	return p
}

// first returns the blocks of a series that hold only its first n steps.
func first(s stats.Series, n int) stats.Series {
	for i := range s.Blocks {
		if n -= s.Blocks[i].Steps; n < 0 {
			s.Blocks = s.Blocks[:i]
			break
		}
	}
	return s
}

// repeat compares each segment with earlier ones of the same settings. It pools their steps where
// the segments are alike, and keeps them apart where they differ.
//
// The result has a stretch for each row, by which the row is compared with rows of other settings.
// The stretch holds the row's own steps and those pooled before it. For the row base it holds all
// steps pooled in its group, also later ones.
func repeat(h stats.History, rows []SegmentStats, base int) []stats.Stretch {
	pooled := make([]stats.Stretch, len(rows))
	first := map[string]int{} // the first row with these settings
	pools := map[int]*stats.Stretch{}
	for i := range rows {
		r := &rows[i]
		pooled[i], r.Repeats = r.Stretch, -1
		if r.Segment.ByScript {
			clear(first) // earlier rows may be of other data, or of another device
		}
		if len(r.Segment.Knobs) == 0 {
			continue // its settings are not known
		}
		settings := knob.Join(r.Segment.Knobs, "\n")
		lead, found := first[settings]
		if !found {
			first[settings] = i
			s := r.Stretch
			pools[i] = &s
			continue
		}
		r.Repeats = lead
		if pool := pools[lead]; pool.Step.Mean > 0 && r.Stretch.Step.Mean > 0 {
			if r.Again = stats.Again(*pool, r.Stretch, h, stats.DefaultMargin); r.Again.Pooled {
				pooled[i], *pool = r.Again.Stretch, r.Again.Stretch
			}
		}
	}
	if base < 0 || rows[base].Repeats >= 0 && !rows[base].Again.Pooled {
		return pooled
	}
	if pool := pools[rows[base].group(base)]; pool != nil {
		pooled[base] = *pool
	}
	return pooled
}

// Repeated says how a row compares with earlier ones of the same settings; it is empty where there
// are none.
func Repeated(rows []SegmentStats, i int) string {
	r := &rows[i]
	if r.Repeats < 0 || r.Again.Stretch.Steps == 0 {
		return ""
	}
	return "as " + rows[r.Repeats].Name() + ": " + r.Again.String()
}
