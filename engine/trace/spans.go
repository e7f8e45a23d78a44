package trace

import (
	"cmp"
	"slices"
	"sort"
)

// chunkLen is the number of spans in a sealed chunk.
const chunkLen = 1024

// chunk is some consecutive spans, sorted by Start.
type chunk struct {
	first, last int64 // the smallest Start and the largest End
	reach       int64 // the largest End in this chunk and in all before it
	spans       []Span
}

// spanLog keeps the newest spans in chunks, and those around the start of each segment. A sealed
// chunk never changes, so readers copy from it without a lock. The open chunk is copied under the
// lock.
type spanLog struct {
	limit  int     // of spans, without the pinned ones
	pinned []chunk // older than the sealed ones, and mostly parts of chunks
	sealed []chunk
	open   chunk
	gone   []Span // of the last chunk that left sealed
}

// maxPinned is how many pinned chunks are kept, 32 MiB at most. When there are more, the first
// FirstRows and the newest stay.
const maxPinned = 1 << 10

// pinReach is how many spans on each side of a segment's start are pinned. That is dozens of steps.
const pinReach = chunkLen / 4

// add takes spans sorted by Start. segments are all that are known so far, in order.
func (l *spanLog) add(spans []Span, segments []Segment) {
	for len(spans) > 0 {
		if l.open.spans == nil {
			l.open.spans = make([]Span, 0, chunkLen)
		}
		mid := len(l.open.spans)
		n := min(len(spans), chunkLen-mid)
		l.open.spans = append(l.open.spans, spans[:n]...)
		mergeTail(l.open.spans, mid)
		for _, s := range spans[:n] {
			if mid == 0 {
				l.open.first, l.open.last = s.Start, s.End
				mid = 1
			}
			l.open.first, l.open.last = min(l.open.first, s.Start), max(l.open.last, s.End)
		}
		spans = spans[n:]
		if len(l.open.spans) == chunkLen {
			l.seal(segments)
		}
	}
}

func (l *spanLog) seal(segments []Segment) {
	l.open.reach = l.open.last
	if n := len(l.sealed); n > 0 {
		l.open.reach = max(l.open.reach, l.sealed[n-1].reach)
	}
	l.sealed = append(l.sealed, l.open)
	l.open = chunk{}
	// Readers hold l.sealed, so dropping the oldest means copying the others. Several are dropped
	// at a time.
	if drop := 1 + len(l.sealed)/32; len(l.sealed)*chunkLen > l.limit+(drop-1)*chunkLen && len(l.sealed) > 1 {
		for i := range drop {
			l.retire(i, segments)
		}
		l.sealed = append(make([]chunk, 0, len(l.sealed)+1), l.sealed[drop:]...)
	}
}

// retire pins spans of a chunk that is about to go: those near the start of a segment in this chunk
// or in a neighbouring one. So the start and the end of a segment can still be shown after a long
// run. Only up to maxPinned chunks are kept so.
func (l *spanLog) retire(at int, segments []Segment) {
	b := l.sealed[at]
	before, after := l.gone, l.sealed[at+1].spans
	l.gone = b.spans
	since := b.first
	if len(before) > 0 {
		since = before[0].Start
	}
	lo, hi := len(b.spans), 0
	for _, s := range segments[sort.Search(len(segments), func(i int) bool { return segments[i].Start >= since }):] {
		if s.Start > after[len(after)-1].Start {
			break
		}
		// The segment's start, counted in spans from the chunk's first.
		start := startedBefore(b.spans, s.Start)
		switch start {
		case 0:
			start = startedBefore(before, s.Start) - len(before)
		case len(b.spans):
			start += startedBefore(after, s.Start)
		}
		lo, hi = min(lo, start-pinReach), max(hi, start+pinReach)
	}
	lo, hi = max(lo, 0), min(hi, len(b.spans))
	if lo >= hi {
		return
	}
	if len(l.pinned) == maxPinned { // readers hold the old slice
		l.pinned = slices.Concat(l.pinned[:FirstRows], l.pinned[FirstRows+1:])
	}
	if hi-lo < len(b.spans) {
		b.spans = slices.Clone(b.spans[lo:hi])
	}
	l.pinned = append(l.pinned, b)
}

// startedBefore returns how many spans start before t.
func startedBefore(spans []Span, t int64) int {
	return sort.Search(len(spans), func(i int) bool { return spans[i].Start >= t })
}

// window returns the pinned and sealed chunks that may overlap [from, to], and a copy
// of the open chunk's spans. The caller holds the lock.
func (l *spanLog) window(from, to int64) ([]chunk, []Span) {
	var open []Span
	if len(l.open.spans) > 0 && l.open.first <= to && l.open.last >= from {
		open = slices.Clone(l.open.spans)
	}
	late := func(chunks []chunk) []chunk {
		return chunks[sort.Search(len(chunks), func(i int) bool { return chunks[i].reach >= from }):]
	}
	if old := late(l.pinned); len(old) > 0 {
		return slices.Concat(old, l.sealed), open
	}
	return late(l.sealed), open
}

// gather returns the spans that overlap [from, to], sorted by Start.
func gather(chunks []chunk, open []Span, from, to int64) []Span {
	n := len(open)
	for i := range chunks {
		if b := &chunks[i]; b.first <= to && b.last >= from {
			n += len(b.spans)
		}
	}
	if n == 0 {
		return nil
	}
	out := make([]Span, 0, n)
	take := func(spans []Span) {
		mid := len(out)
		hi := sort.Search(len(spans), func(i int) bool { return spans[i].Start > to })
		for _, s := range spans[:hi] {
			if s.End >= from {
				out = append(out, s)
			}
		}
		mergeTail(out, mid)
	}
	for i := range chunks {
		if b := &chunks[i]; b.first <= to && b.last >= from {
			take(b.spans)
		}
	}
	take(open)
	return out
}

// compareSpans orders by Start. Of two spans on one track that start together the longer one comes
// first, so that a step precedes its parts.
func compareSpans(a, b Span) int {
	switch {
	case a.Start != b.Start:
		return cmp.Compare(a.Start, b.Start)
	case a.Track != b.Track:
		return int(a.Track) - int(b.Track)
	case a.End != b.End:
		return cmp.Compare(b.End, a.End)
	}
	return int(a.Kind) - int(b.Kind)
}

// SortSpans orders spans by Start.
func SortSpans(s []Span) {
	if !slices.IsSortedFunc(s, compareSpans) {
		slices.SortFunc(s, compareSpans)
	}
}

// mergeTail merges s[mid:] into s[:mid], both sorted. Spans arrive nearly in
// order, so the merge runs from the back and stops where the tail belongs.
func mergeTail(s []Span, mid int) {
	if mid == 0 || mid == len(s) || compareSpans(s[mid-1], s[mid]) <= 0 {
		return
	}
	tail := slices.Clone(s[mid:])
	i, k := mid-1, len(s)-1
	for j := len(tail) - 1; j >= 0; k-- {
		if i >= 0 && compareSpans(s[i], tail[j]) > 0 {
			s[k], i = s[i], i-1
		} else {
			s[k], j = tail[j], j-1
		}
	}
}
