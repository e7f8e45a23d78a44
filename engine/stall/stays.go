package stall

import "dev.gpustall/engine/evidence"

// firstLook is the number of steps at the first of the looks at a growing segment.
const firstLook = 64

// stays is an answer that was known at an earlier look, where now there is none: the host
// may turn out to remember for longer than it seemed, and what was enough is no longer. The
// intervals hold at all looks together (evidence.Compare), so an answer once known is as
// good as any, unless what has been measured since is outside of its interval.
//
// The looks are at powers of two of the later segment's steps, with what was known of the
// host by then, so that a session comes to the same words whenever it is read.
func stays(rows []SegmentStats, a, b *SegmentStats, now evidence.Comparison) evidence.Comparison {
	t := &now.Throughput
	if t.Answer != evidence.Unknown || t.Ratio <= 0 || !a.Stretch.Enough() || !b.Stretch.Enough() {
		return now
	}
	sides := [2]evidence.Stretch{a.Stretch, b.Stretch}
	later, side := b, 1
	if a.Segment.Index > b.Segment.Index {
		later, side = a, 0
	}
	var before evidence.History
	for i := range rows {
		if rows[i].Segment.Index < later.Segment.Index {
			before.Learn(rows[i].Stretch)
		}
	}
	for n := later.Stretch.Steps; n >= firstLook; n = powerBelow(n) {
		sides[side] = evidence.Measure(first(later.series, n))
		h := before
		h.Learn(sides[side])
		then := evidence.Compare(sides[0], sides[1], h, evidence.DefaultMargin)
		if c := &then.Throughput; c.Answer != evidence.Unknown {
			if c.Lo <= t.Ratio && t.Ratio <= c.Hi {
				return then
			}
			return now
		}
	}
	return now
}

// powerBelow is the largest power of two below n.
func powerBelow(n int) int {
	p := 1
	for 2*p < n {
		p *= 2
	}
	return p
}

// first are the blocks of a series that hold no more than its first n steps.
func first(s evidence.Series, n int) evidence.Series {
	for i := range s.Blocks {
		if n -= s.Blocks[i].Steps; n < 0 {
			s.Blocks = s.Blocks[:i]
			break
		}
	}
	return s
}
