package stall

import (
	"dev.gpustall/engine/evidence"
	"dev.gpustall/engine/trace"
)

// stretch sums up the steady steps of a segment for comparisons.
func stretch(t *trace.Tally) evidence.Stretch {
	list := t.Blocks.List()
	blocks := make([]evidence.Block, len(list))
	for i := range list {
		b := &list[i]
		blocks[i] = evidence.Block{Steps: int(b.Steps), Samples: b.Samples, Active: b.Active, Busy: b.Busy, Squares: b.Squares}
	}
	return evidence.Measure(evidence.Series{Start: t.From, Blocks: blocks})
}

// Compare relates segment b to a, given what the other rows tell of the host: how
// long its steps hang together.
func Compare(rows []SegmentStats, a, b *SegmentStats) evidence.Comparison {
	return compare(history(rows), a, b)
}

func compare(h evidence.History, a, b *SegmentStats) evidence.Comparison {
	return evidence.Compare(a.Stretch, b.Stretch, h, evidence.DefaultMargin)
}

func history(rows []SegmentStats) (h evidence.History) {
	for i := range rows {
		h.Learn(rows[i].Stretch)
	}
	return h
}
