package store

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"

	"dev.gpustall/engine/trace"
)

// Rows of steps, segments and ops carry the CRC-32 (IEEE) of their fields, in the
// order of the columns: a number is 8 bytes, little endian, a text its length and
// its bytes. A NULL is a row of before there were checksums. SQLite checks the
// structure of its pages, not what they hold.

// rowSum gathers a row's fields; its buffer is reused.
type rowSum []byte

func (r *rowSum) ints(v ...int64) {
	for _, n := range v {
		*r = binary.LittleEndian.AppendUint64(*r, uint64(n))
	}
}

// float takes every NaN for the same, and both zeros: SQLite stores a NaN as NULL
// and -0 as 0.
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

// step is the checksum of a step whose stalls are stored as that text: the causes
// may have other numbers, or names, when it is read.
func (r *rowSum) step(s *trace.Step, stalls string) int64 {
	r.ints(int64(s.Index), int64(s.Epoch), int64(s.Segment), int64(s.Batch), int64(s.Samples), int64(s.Correct))
	r.float(float64(s.Loss))
	r.ints(int64(s.Flags), s.Start, s.End, s.Busy, s.Wait, s.Load, s.Copy, s.Bytes)
	r.text(stalls)
	return r.crc()
}

// segment covers its knobs.
func (r *rowSum) segment(s *trace.Segment) int64 {
	r.ints(int64(s.Index), s.Start, s.End, int64(s.FirstStep))
	r.text(s.Reason)
	r.ints(int64(s.TransitionSteps), s.Transition)
	for _, k := range s.Knobs {
		r.text(k.Name)
		r.text(k.Value)
	}
	return r.crc()
}

func (r *rowSum) op(pos int64, o *trace.OpTime) int64 {
	r.ints(pos, int64(o.Segment))
	r.text(o.Name)
	r.text(o.Layer)
	r.text(o.Phase)
	r.text(o.Variant)
	r.ints(o.Calls, o.Total, o.Min, o.Max)
	r.float(o.FLOPs)
	r.float(o.Bytes)
	return r.crc()
}

// summed reports whether a table of the file has checksums.
func (l *loader) summed(table string) bool { return slices.Contains(l.sums, table) }

// sumColumn is what to select as the checksum.
func (l *loader) sumColumn(table string) string {
	if l.summed(table) {
		return "crc"
	}
	return "NULL"
}
