package parquet

import (
	"encoding/binary"
	"errors"
	"math"
)

// This is Thrift's compact protocol, as far as Parquet's metadata needs it. Structs become
// maps by field number, because their meaning is not needed.

// Types of fields.
const (
	tTrue   = 1
	tFalse  = 2
	tByte   = 3
	tI16    = 4
	tI32    = 5
	tI64    = 6
	tDouble = 7
	tBinary = 8
	tList   = 9
	tSet    = 10
	tStruct = 12
)

var errThrift = errors.New("its metadata is damaged")

const maxDepth = 16

// fields is a struct: values by field number, each an int64, float64, bool, []byte, []any or
// fields.
type fields map[int16]any

func (f fields) num(id int16) int64 {
	v, _ := f[id].(int64)
	return v
}

func (f fields) text(id int16) string {
	v, _ := f[id].([]byte)
	return string(v)
}

func (f fields) list(id int16) []any {
	v, _ := f[id].([]any)
	return v
}

func (f fields) sub(id int16) fields {
	v, _ := f[id].(fields)
	return v
}

// reader reads from b.
type reader struct {
	b     []byte
	items int // how many may still be read, because a list may claim more than there are
}

func (r *reader) byte() (byte, error) {
	if len(r.b) == 0 {
		return 0, errThrift
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c, nil
}

func (r *reader) uvarint() (uint64, error) {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		return 0, errThrift
	}
	r.b = r.b[n:]
	return v, nil
}

func (r *reader) varint() (int64, error) {
	v, err := r.uvarint()
	return int64(v>>1) ^ -int64(v&1), err
}

// structure reads a struct.
func (r *reader) structure(depth int) (fields, error) {
	f := fields{}
	id := int16(0)
	for {
		head, err := r.byte()
		if err != nil || head == 0 {
			return f, err
		}
		if d := head >> 4; d > 0 {
			id += int16(d)
		} else {
			v, err := r.varint()
			if err != nil {
				return nil, err
			}
			id = int16(v)
		}
		v, err := r.value(head&15, depth, false)
		if err != nil {
			return nil, err
		}
		f[id] = v
	}
}

func (r *reader) value(typ byte, depth int, listed bool) (any, error) {
	if r.items--; depth > maxDepth || r.items < 0 {
		return nil, errThrift
	}
	switch typ {
	case tTrue, tFalse:
		if !listed {
			return typ == tTrue, nil
		}
		c, err := r.byte()
		return c == tTrue, err
	case tByte:
		c, err := r.byte()
		return int64(int8(c)), err
	case tI16, tI32, tI64:
		return r.varint()
	case tDouble:
		if len(r.b) < 8 {
			return nil, errThrift
		}
		v := math.Float64frombits(binary.LittleEndian.Uint64(r.b))
		r.b = r.b[8:]
		return v, nil
	case tBinary:
		n, err := r.uvarint()
		if err != nil || n > uint64(len(r.b)) {
			return nil, errThrift
		}
		v := r.b[:n:n]
		r.b = r.b[n:]
		return v, nil
	case tList, tSet:
		head, err := r.byte()
		if err != nil {
			return nil, err
		}
		n := uint64(head >> 4)
		if n == 15 {
			if n, err = r.uvarint(); err != nil {
				return nil, err
			}
		}
		var list []any
		for range n {
			v, err := r.value(head&15, depth+1, true)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case tStruct:
		return r.structure(depth + 1)
	}
	return nil, errThrift
}

// writer writes structs. last is the number of the previous field.
type writer struct {
	b    []byte
	last []int16
}

func (w *writer) begin() { w.last = append(w.last, 0) }

func (w *writer) end() {
	w.b = append(w.b, 0)
	w.last = w.last[:len(w.last)-1]
}

func (w *writer) field(id int16, typ byte) {
	last := &w.last[len(w.last)-1]
	w.b = append(w.b, byte(id-*last)<<4|typ) // our field numbers are never more than 15 apart
	*last = id
}

func (w *writer) num(v int64) { w.b = binary.AppendUvarint(w.b, uint64(v<<1)^uint64(v>>63)) }

func (w *writer) i32(id int16, v int64) {
	w.field(id, tI32)
	w.num(v)
}

func (w *writer) i64(id int16, v int64) {
	w.field(id, tI64)
	w.num(v)
}

func (w *writer) string(s string) {
	w.b = binary.AppendUvarint(w.b, uint64(len(s)))
	w.b = append(w.b, s...)
}

func (w *writer) text(id int16, s string) {
	w.field(id, tBinary)
	w.string(s)
}

func (w *writer) list(id int16, typ byte, n int) {
	w.field(id, tList)
	if n < 15 {
		w.b = append(w.b, byte(n)<<4|typ)
		return
	}
	w.b = append(w.b, 15<<4|typ)
	w.b = binary.AppendUvarint(w.b, uint64(n))
}

func (w *writer) sub(id int16) {
	w.field(id, tStruct)
	w.begin()
}
