package store

import (
	"database/sql"
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"

	"dev.gpustall/engine/trace"
)

// Each row, except those of knobs, spans and the digest, carries the CRC-32 (IEEE) of
// its fields. SQLite checks the structure of its pages and not the values in them. The
// fields are taken in the order of the columns: a number is 8 bytes, little endian, a
// text its length and its bytes. An id that SQLite chose is not among them. Where the
// checksum is NULL, or the table has no such column, the row was written before there
// were checksums and is not checked. A segment's checksum covers its knobs; span chunks
// and the digest have one of their own.

// summedTables are those whose rows have a checksum, in files that are written now.
var summedTables = []string{"doc", "names", "segments", "steps", "notes", "gauges", "ops", "experiments"}

// rowSum gathers a row's fields; its buffer is reused.
type rowSum []byte

func (r *rowSum) ints(v ...int64) {
	for _, n := range v {
		*r = binary.LittleEndian.AppendUint64(*r, uint64(n))
	}
}

// float takes every NaN as the same value, and -0 as 0: SQLite stores a NaN as NULL and -0 as 0.
func (r *rowSum) float(v float64) {
	switch {
	case math.IsNaN(v):
		v = math.NaN()
	case v == 0:
		v = 0
	}
	r.ints(int64(math.Float64bits(v)))
}

func (r *rowSum) text(s string) {
	r.ints(int64(len(s)))
	*r = append(*r, s...)
}

// crc returns the checksum and begins the next row.
func (r *rowSum) crc() int64 {
	c := crc32.ChecksumIEEE(*r)
	*r = (*r)[:0]
	return int64(c)
}

// step returns the checksum of a step. It covers its stalls and work as the text in the file,
// because causes and phases may have other numbers, or names, when the file is read. Older files
// have no work; the text is empty then.
func (r *rowSum) step(s *trace.Step, stalls, work string) int64 {
	r.ints(int64(s.Index), int64(s.Epoch), int64(s.Segment), int64(s.Batch), int64(s.Samples), int64(s.Correct))
	r.float(float64(s.Loss))
	r.ints(int64(s.Flags), s.Start, s.End, s.Busy, s.Wait, s.Load, s.Copy, s.Bytes)
	if s.Through != 0 {
		r.ints(s.Through)
	}
	r.text(stalls)
	if work != "" {
		r.text(work)
	}
	return r.crc()
}

// segment returns the checksum of a segment with its knobs, and its prediction as the text in the
// file, which is empty in older files. scripted says whether the file has a column for
// Segment.ByScript.
func (r *rowSum) segment(s *trace.Segment, predicted string, scripted bool) int64 {
	r.ints(int64(s.Index), s.Start, s.End, int64(s.FirstStep))
	r.text(s.Reason)
	r.ints(int64(s.TransitionSteps), s.Transition)
	for _, k := range s.Knobs {
		r.text(k.Name)
		r.text(k.Value)
	}
	if predicted != "" {
		r.text(predicted)
	}
	if s.ByScript && scripted {
		r.ints(1)
	}
	return r.crc()
}

func (r *rowSum) op(o *trace.OpTime) int64 {
	r.ints(int64(o.ID), int64(o.Segment))
	r.text(o.Name)
	r.text(o.Layer)
	r.text(o.Phase)
	r.text(o.Variant)
	r.ints(o.Calls, o.Total, o.Min, o.Max)
	r.float(o.FLOPs)
	r.float(o.Bytes)
	return r.crc()
}

func (r *rowSum) experiment(index int32, value string) int64 {
	r.ints(int64(index))
	r.text(value)
	return r.crc()
}

func (r *rowSum) doc(key, value string) int64 {
	r.text(key)
	r.text(value)
	return r.crc()
}

func (r *rowSum) name(enum string, id int64, name string) int64 {
	r.text(enum)
	r.ints(id)
	r.text(name)
	return r.crc()
}

func (r *rowSum) note(n *trace.Note) int64 {
	r.ints(n.T)
	r.text(n.Level)
	r.text(n.Text)
	return r.crc()
}

func (r *rowSum) gauge(g *trace.GaugePoint) int64 {
	r.text(g.Name)
	r.ints(g.T)
	r.float(g.V)
	return r.crc()
}

// intact reports whether a row of a table was read as it was written. err is the error of reading
// it, stored its checksum in the file, and sum the checksum of what was read. In a table without
// checksums an unreadable row makes the file unreadable.
func (l *loader) intact(table string, err error, stored sql.NullInt64, sum int64) bool {
	if !l.summed(table) {
		l.fail(err)
		return err == nil
	}
	return err == nil && (!stored.Valid || stored.Int64 == sum)
}

// summed reports whether a table of the file has checksums.
func (l *loader) summed(table string) bool { return slices.Contains(l.sums, table) }

// sumColumn returns the column to select as the checksum.
func (l *loader) sumColumn(table string) string {
	if l.summed(table) {
		return "crc"
	}
	return "NULL"
}
