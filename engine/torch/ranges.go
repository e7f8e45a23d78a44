package torch

import (
	"cmp"
	"math"
	"slices"
)

// span is a stretch of time, in ns.
type span struct{ start, end int64 }

func (s span) length() int64 { return max(0, s.end-s.start) }

// nothing is the empty span: nothing.over(s) is s.
var nothing = span{math.MaxInt64, math.MinInt64}

// over returns the span from the earlier start to the later end.
func (s span) over(o span) span { return span{min(s.start, o.start), max(s.end, o.end)} }

// ranges are spans in order of time that neither overlap nor touch.
type ranges []span

// merged makes ranges of spans in any order. It reuses their memory.
func merged(s []span) ranges {
	slices.SortFunc(s, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	out := s[:0]
	for _, r := range s {
		switch n := len(out); {
		case r.end <= r.start:
		case n > 0 && r.start <= out[n-1].end:
			out[n-1].end = max(out[n-1].end, r.end)
		default:
			out = append(out, r)
		}
	}
	return ranges(out)
}

// length returns the sum of the spans' lengths, in ns.
func (r ranges) length() (ns int64) {
	for _, s := range r {
		ns += s.end - s.start
	}
	return ns
}

// and returns the intersection.
func (r ranges) and(o ranges) ranges {
	var out ranges
	for i, j := 0, 0; i < len(r) && j < len(o); {
		if both := (span{max(r[i].start, o[j].start), min(r[i].end, o[j].end)}); both.length() > 0 {
			out = append(out, both)
		}
		if r[i].end < o[j].end {
			i++
		} else {
			j++
		}
	}
	return out
}

// without returns the parts of r outside o.
func (r ranges) without(o ranges) ranges {
	var out ranges
	j := 0
	for _, s := range r {
		for j < len(o) && o[j].end <= s.start {
			j++
		}
		for k := j; k < len(o) && o[k].start < s.end; k++ {
			if o[k].start > s.start {
				out = append(out, span{s.start, o[k].start})
			}
			s.start = max(s.start, o[k].end)
		}
		if s.length() > 0 {
			out = append(out, s)
		}
	}
	return out
}

// within returns the part of r in w. It takes time in proportion to that part.
func (r ranges) within(w span) ranges {
	i, _ := slices.BinarySearchFunc(r, w.start, func(s span, t int64) int {
		if s.end <= t {
			return -1
		}
		return 1
	})
	var out ranges
	for ; i < len(r) && r[i].start < w.end; i++ {
		out = append(out, span{max(r[i].start, w.start), min(r[i].end, w.end)})
	}
	return out
}

// pile collects spans. It merges them now and then, so it holds at most about twice as many as do
// not touch.
type pile struct {
	spans []span
	merge int // the number of spans at which they are merged
}

const leastPile = 1 << 16

func (p *pile) add(s span) {
	if s.end <= s.start {
		return
	}
	if p.spans = append(p.spans, s); len(p.spans) >= max(p.merge, leastPile) {
		p.spans = merged(p.spans)
		p.merge = 2 * len(p.spans)
	}
}

// ranges returns what was collected, merged. Nothing may be added afterwards.
func (p *pile) ranges() ranges { return merged(p.spans) }
