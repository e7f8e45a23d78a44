package store

import (
	"database/sql"
	"fmt"
	"slices"
	"sort"
	"strings"

	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store/rows"
)

// around is how many spans on each side of a segment's start stay when all others of their age are
// deleted: at least those of a few steps. Whole chunks stay.
const around = 1024

// chunk is what is known of a chunk in the file without reading it.
type chunk struct {
	id, bytes int64
	spans     int
	first     int64 // ns, the Start of its first span
	pinned    bool  // it is around the start of a segment
}

// pin marks the chunks around the start of a segment. It is not done while spans after the start
// are still to come.
func pin(chunks []chunk, start int64) (done bool) {
	if len(chunks) == 0 {
		return false
	}
	at := max(0, sort.Search(len(chunks), func(i int) bool { return chunks[i].first > start })-1)
	chunks[at].pinned = true
	for i, n := at-1, 0; i >= 0 && n < around; i-- {
		chunks[i].pinned = true
		n += chunks[i].spans
	}
	n := 0
	for i := at + 1; i < len(chunks) && n < around; i++ {
		chunks[i].pinned = true
		n += chunks[i].spans
	}
	return n >= around
}

// chunks are all chunks of a file that is being written.
type chunks struct {
	next     int64   // id
	bytes    int64   // of all
	pinned   []chunk // older than the others
	list     []chunk // oldest first
	segments int32   // how many have begun
	starts   []int64 // ns, of segments whose first chunks are still to come
}

// add counts a chunk and returns its id.
func (c *chunks) add(spans, bytes int, first int64) (id int64) {
	c.next++
	c.bytes += int64(bytes)
	c.list = append(c.list, chunk{id: c.next, bytes: int64(bytes), spans: spans, first: first})
	return c.next
}

// begin notes segments that have begun.
func (c *chunks) begin(segments []trace.Segment) {
	starts := slices.Clone(c.starts) // a copy, because a write that fails undoes all of this
	for i := range segments {
		if g := &segments[i]; g.Index >= c.segments {
			c.segments = g.Index + 1
			starts = append(starts, g.Start)
		}
	}
	c.starts = slices.DeleteFunc(starts, func(start int64) bool { return pin(c.list, start) })
}

// overflow takes out the oldest chunks beyond the limit, in bytes, and returns their ids. Pinned
// chunks may have up to half of the limit. Beyond that they go too, but not the first
// trace.FirstRows of them.
func (c *chunks) overflow(limit int64) (gone []int64) {
	var pinned int64
	kept := slices.Clone(c.pinned)
	for i := range kept {
		pinned += kept[i].bytes
	}
	for c.bytes > limit && len(c.list) > 1 {
		old := c.list[0]
		c.list = c.list[1:]
		if old.pinned {
			kept = append(kept, old)
			if pinned += old.bytes; pinned <= limit/2 {
				continue
			}
			at := min(trace.FirstRows, len(kept)-1)
			old = kept[at]
			kept = slices.Delete(kept, at, at+1)
			pinned -= old.bytes
		}
		c.bytes -= old.bytes
		gone = append(gone, old.id)
	}
	c.pinned = kept
	return gone
}

// readSpans reads the newest chunks, as many as memory keeps, and the pinned ones, the oldest
// first.
func (l *loader) readSpans() {
	var list []chunk
	l.rows(`SELECT id, n, first FROM spans ORDER BY id`, func(r *sql.Rows) error {
		var c chunk
		err := r.Scan(&c.id, &c.spans, &c.first)
		list = append(list, c)
		return err
	})
	for i := range l.s.Segments {
		pin(list, l.s.Segments[i].Start)
	}
	recent := len(list)
	for n := 0; recent > 0; recent-- {
		if n += list[recent-1].spans; n > trace.MaxSpans+rows.MaxSpans {
			break
		}
	}
	var where strings.Builder
	n := 0
	for _, c := range list[:recent] {
		if c.pinned && n+c.spans <= trace.MaxSpans {
			fmt.Fprintf(&where, "%d,", c.id)
			n += c.spans
		}
	}
	from := int64(1)
	if recent > 0 && recent < len(list) {
		from = list[recent].id
	}
	damaged := 0
	l.rows(fmt.Sprintf(`SELECT data FROM spans WHERE id >= %d OR id IN (%s) ORDER BY id`, from, strings.TrimSuffix(where.String(), ",")), func(r *sql.Rows) error {
		var data sql.RawBytes
		if err := r.Scan(&data); err != nil {
			return err
		}
		spans, err := rows.Decode(nil, data)
		if err != nil {
			damaged++
		}
		for i := range spans {
			l.span(&spans[i])
		}
		trace.SortSpans(spans)
		l.spans = append(l.spans, spans)
		return nil
	})
	if damaged > 0 {
		l.harmed("left out %d of its span chunks that are not what was written: the timeline has holes", damaged)
	}
}

// span replaces the file's numbers of causes and kinds by this program's.
func (l *loader) span(s *trace.Span) {
	s.Kind = l.kind[s.Kind]
	switch s.Kind {
	case trace.KindStall:
		c, ok := l.cause[s.Arg]
		if !ok {
			c = trace.CauseUnknown
		}
		s.Arg = uint32(c)
	}
}
