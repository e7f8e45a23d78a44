package trace

import (
	"database/sql"
	"fmt"
	"strconv"
	"strings"
)

// parseStalls is the inverse of appendStalls. A cause that this program does not
// know counts as unknown, so that the sum stays exact.
func parseStalls(text string, stall *[NumCauses]int64) error {
	for len(text) > 0 {
		name, rest, ok := strings.Cut(text, " ")
		if !ok {
			return ErrDamaged
		}
		var number string
		number, text, _ = strings.Cut(rest, " ")
		ns, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return ErrDamaged
		}
		c, _ := ParseCause(name)
		stall[c] += ns
	}
	return nil
}

// spans reads the newest chunks, as many as memory keeps, oldest first.
func (l *loader) spans() {
	var keep int64
	var from int64 = 1
	l.rows(`SELECT id, n FROM spans ORDER BY id DESC`, func(r *sql.Rows) error {
		var id, n int64
		err := r.Scan(&id, &n)
		if keep += n; keep <= MaxSpans+chunkSpans {
			from = id
		}
		return err
	})
	damaged := 0
	var spans []Span
	l.rows(fmt.Sprintf(`SELECT data FROM spans WHERE id >= %d ORDER BY id`, from), func(r *sql.Rows) error {
		var data sql.RawBytes
		if err := r.Scan(&data); err != nil {
			return err
		}
		var err error
		if spans, err = decodeChunk(spans[:0], data); err != nil {
			damaged++
		}
		for i := range spans {
			s := &spans[i]
			s.Kind = l.kind[s.Kind]
			if s.Kind == KindStall {
				if c, ok := l.cause[s.Arg]; ok {
					s.Arg = uint32(c)
				} else {
					s.Arg = uint32(CauseUnknown)
				}
			}
		}
		sortSpans(spans)
		l.s.spans.add(spans)
		return nil
	})
	if damaged > 0 {
		l.s.notes = append(l.s.notes, Note{l.s.now, "warn",
			fmt.Sprintf("%d of the file's span chunks are damaged and left out; the steps are complete", damaged)})
	}
}

func (l *loader) notes() {
	l.rows(`SELECT t, level, text FROM notes ORDER BY id`, func(r *sql.Rows) error {
		var n Note
		err := r.Scan(&n.T, &n.Level, &n.Text)
		l.s.notes = append(l.s.notes, n)
		return err
	})
}

func (l *loader) gauges() {
	l.s.gauges = map[string][]Point{}
	l.rows(`SELECT name, t, v FROM gauges ORDER BY id`, func(r *sql.Rows) error {
		var name string
		var p Point
		var v sql.NullFloat64
		err := r.Scan(&name, &p.T, &v)
		p.V = orNaN(v)
		l.s.gauges[name] = append(l.s.gauges[name], p)
		return err
	})
}

func (l *loader) ops() {
	l.rows(`SELECT name, layer, calls, total, flops, bytes FROM ops ORDER BY pos`, func(r *sql.Rows) error {
		var o OpTime
		var flops, bytes sql.NullFloat64
		err := r.Scan(&o.Name, &o.Layer, &o.Calls, &o.Total, &flops, &bytes)
		o.FLOPs, o.Bytes = orNaN(flops), orNaN(bytes)
		l.s.ops = append(l.s.ops, o)
		return err
	})
}
