package parquet

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
)

// groupRows is how many rows a group has. A group is written column by column.
const groupRows = 1 << 17

// chunk is the place of a column's part in a group of rows.
type chunk struct{ at, bytes, rows int64 }

// Marshal returns a table as a file.
func Marshal(t *Table, by string) ([]byte, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	b := []byte(magic)
	var groups [][]chunk
	for from := 0; from < t.Rows && len(t.Columns) > 0; from += groupRows {
		to := min(from+groupRows, t.Rows)
		var g []chunk
		for i := range t.Columns {
			at := len(b)
			b = t.Columns[i].page(b, from, to)
			g = append(g, chunk{int64(at), int64(len(b) - at), int64(to - from)})
		}
		groups = append(groups, g)
	}
	foot := t.footer(groups, by)
	b = append(b, foot...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(foot)))
	return append(b, magic...), nil
}

func (c *Column) physical() int64 {
	return map[Kind]int64{Int: typeInt64, Float: typeDouble, Text: typeBytes, Bool: typeBool}[c.Kind]
}

// page appends rows of a column as one data page.
func (c *Column) page(b []byte, from, to int) []byte {
	var data []byte
	if c.Null != nil { // first the length, then which rows have a value, in runs
		var levels []byte
		for i := from; i < to; {
			j := i
			for j < to && c.Null[j] == c.Null[i] {
				j++
			}
			levels = binary.AppendUvarint(levels, uint64(j-i)<<1)
			levels = append(levels, map[bool]byte{true: 0, false: 1}[c.Null[i]])
			i = j
		}
		data = binary.LittleEndian.AppendUint32(data, uint32(len(levels)))
		data = append(data, levels...)
	}
	bit := 0
	for i := from; i < to; i++ {
		if !c.Has(i) {
			continue
		}
		switch c.Kind {
		case Int:
			data = binary.LittleEndian.AppendUint64(data, uint64(c.Ints[i]))
		case Float:
			data = binary.LittleEndian.AppendUint64(data, math.Float64bits(c.Floats[i]))
		case Text:
			data = binary.LittleEndian.AppendUint32(data, uint32(len(c.Texts[i])))
			data = append(data, c.Texts[i]...)
		case Bool:
			if bit%8 == 0 {
				data = append(data, 0)
			}
			data[len(data)-1] |= byte(c.Ints[i]&1) << (bit % 8)
			bit++
		}
	}
	w := writer{}
	w.begin()
	w.i32(1, pageData)
	w.i32(2, int64(len(data)))
	w.i32(3, int64(len(data)))
	w.sub(5)
	w.i32(1, int64(to-from))
	w.i32(2, plain)
	w.i32(3, rle)
	w.i32(4, rle)
	w.end()
	w.end()
	return append(append(b, w.b...), data...)
}

// footer returns the file's metadata.
func (t *Table) footer(groups [][]chunk, by string) []byte {
	w := writer{}
	w.begin()
	w.i32(1, 1)
	w.list(2, tStruct, 1+len(t.Columns))
	w.begin()
	w.text(4, "schema")
	w.i32(5, int64(len(t.Columns)))
	w.end()
	for i := range t.Columns {
		c := &t.Columns[i]
		w.begin()
		w.i32(1, c.physical())
		w.i32(3, map[bool]int64{true: 1, false: 0}[c.Null != nil])
		w.text(4, c.Name)
		if c.Kind == Text {
			w.i32(6, 0) // UTF8
		}
		w.end()
	}
	w.i64(3, int64(t.Rows))
	w.list(4, tStruct, len(groups))
	for _, g := range groups {
		w.begin()
		w.list(1, tStruct, len(g))
		total := int64(0)
		for i, k := range g {
			total += k.bytes
			w.begin()
			w.i64(2, k.at)
			w.sub(3)
			w.i32(1, t.Columns[i].physical())
			w.list(2, tI32, 2)
			w.num(plain)
			w.num(rle)
			w.list(3, tBinary, 1)
			w.string(t.Columns[i].Name)
			w.i32(4, codecNone)
			w.i64(5, k.rows)
			w.i64(6, k.bytes)
			w.i64(7, k.bytes)
			w.i64(9, k.at)
			w.end()
			w.end()
		}
		w.i64(2, total)
		w.i64(3, g[0].rows)
		w.end()
	}
	if len(t.About) > 0 {
		w.list(5, tStruct, len(t.About))
		for _, k := range slices.Sorted(maps.Keys(t.About)) {
			w.begin()
			w.text(1, k)
			w.text(2, t.About[k])
			w.end()
		}
	}
	w.text(6, by)
	w.end()
	return w.b
}
