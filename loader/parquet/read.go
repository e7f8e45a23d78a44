package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Limits on what is read.
const (
	MaxFile  = 1 << 32
	maxRows  = 1 << 27
	maxPage  = 1 << 30
	maxItems = 1 << 22 // of metadata
)

var errDamaged = errors.New("it is truncated or damaged")

// ErrNotParquet is what Unmarshal's error wraps if b is not a Parquet file.
var ErrNotParquet = errors.New("it is no Parquet file")

// unknownError says why a column is left out.
type unknownError string

func (e unknownError) Error() string { return string(e) }

// Unmarshal reads a table from a file's bytes. It leaves out columns that this package cannot
// read: nested ones, and those of other types, encodings or compressions (Table.Unread).
func Unmarshal(b []byte) (*Table, error) {
	const tail = 8
	if len(b) < len(magic)+tail || string(b[:4]) != magic || string(b[len(b)-4:]) != magic {
		return nil, ErrNotParquet
	}
	n := int(binary.LittleEndian.Uint32(b[len(b)-tail:]))
	if n > len(b)-tail-len(magic) {
		return nil, errDamaged
	}
	r := reader{b: b[len(b)-tail-n : len(b)-tail], items: maxItems}
	foot, err := r.structure(0)
	if err != nil {
		return nil, err
	}
	rows := foot.num(3)
	if rows < 0 || rows > maxRows {
		return nil, errDamaged
	}
	t := &Table{Rows: int(rows), About: map[string]string{}}
	for _, kv := range foot.list(5) {
		if f, ok := kv.(fields); ok {
			t.About[f.text(1)] = f.text(2)
		}
	}
	columns := flat(foot.list(2))
	for _, g := range foot.list(4) {
		group, _ := g.(fields)
		for i, c := range group.list(1) {
			chunk, _ := c.(fields)
			meta := chunk.sub(3)
			if i >= len(columns) || columns[i].unread != "" {
				continue
			}
			c := columns[i]
			switch err := c.chunk(b, meta, t.Rows); {
			case errors.As(err, &c.unread):
			case err != nil:
				return nil, fmt.Errorf("column %s: %w", c.Name, err)
			}
		}
	}
	for _, c := range columns {
		if c.unread == "" && c.unsigned && slices.ContainsFunc(c.Ints, func(v int64) bool { return v < 0 }) {
			c.unread = "it has numbers of 2^63 and more; write them as text or as floating point numbers"
		}
		if c.unread != "" {
			if t.Unread == nil {
				t.Unread = map[string]string{}
			}
			t.Unread[c.Name] = string(c.unread)
			continue
		}
		if c.Len() != t.Rows {
			return nil, fmt.Errorf("column %s has %d rows of %d: %w", c.Name, c.Len(), t.Rows, errDamaged)
		}
		t.Columns = append(t.Columns, c.Column)
	}
	return t, nil
}

// column is a column that is being read.
type column struct {
	Column
	physical int64
	optional bool
	unsigned bool // its numbers are unsigned
	unread   unknownError
	dict     Column
}

// flat returns the leaves of the schema in their order. Those below a group have its name.
func flat(schema []any) (out []*column) {
	if len(schema) == 0 {
		return nil
	}
	nested := 0 // leaves to come that lie below a group
	group := ""
	for _, e := range schema[1:] {
		f, _ := e.(fields)
		if n := f.num(5); n > 0 {
			if nested > 0 {
				nested--
			} else {
				group = f.text(4)
			}
			nested += int(min(n, maxItems))
			continue
		}
		c := leaf(f)
		if nested > 0 {
			nested--
			c.Name, c.unread = group, errNested
		}
		out = append(out, c)
	}
	return out
}

const errNested = unknownError("it is nested; write what it holds as columns of their own")

// leaf makes a column from its element of the schema.
func leaf(f fields) *column {
	c := &column{physical: f.num(1), optional: f.num(3) == 1}
	c.Name = f.text(4)
	converted, logical := f.num(6), f.sub(10)
	if signed, ok := logical.sub(10)[2].(bool); ok && !signed || unsigned8 <= converted && converted <= unsigned64 {
		c.unsigned = true
	}
	switch _, decimal := logical[5]; {
	case f.num(3) == 2:
		c.unread = errNested
	case decimal || converted == convertedDecimal:
		c.unread = "it holds decimals; write them as floating point numbers"
	case c.physical == typeInt32 || c.physical == typeInt64:
		c.Kind = Int
	case c.physical == typeFloat || c.physical == typeDouble:
		c.Kind = Float
	case c.physical == typeBytes:
		c.Kind = Text
	case c.physical == typeBool:
		c.Kind = Bool
	default:
		c.unread = unknownError(fmt.Sprintf("its type is not known here (%d); write it as numbers, text, or true and false", c.physical))
	}
	return c
}

// chunk reads the pages of a column in one group of rows. The table has rows rows in all.
func (c *column) chunk(b []byte, meta fields, rows int) error {
	at := meta.num(9)
	if d := meta.num(11); d > 0 && d < at {
		at = d
	}
	c.dict = Column{Kind: c.Kind}
	for left := meta.num(5); left > 0; {
		if at < 0 || at >= int64(len(b)) {
			return errDamaged
		}
		r := reader{b: b[at:], items: maxItems}
		head, err := r.structure(0)
		if err != nil {
			return err
		}
		size, whole := head.num(3), head.num(2)
		if size < 0 || size > int64(len(r.b)) || whole < 0 || whole > maxPage {
			return errDamaged
		}
		at = int64(len(b)) - int64(len(r.b)) + size
		n, err := c.page(head, r.b[:size], int(whole), meta.num(4), rows-c.Len())
		if err != nil {
			return err
		}
		if left -= n; left < 0 {
			return errDamaged
		}
	}
	return nil
}

// page reads a page and returns how many rows it has, at most those that are still to come.
func (c *column) page(head fields, b []byte, whole int, codec int64, toCome int) (int64, error) {
	var levels []byte
	var n, encoding int64
	var err error
	switch head.num(1) {
	case pageDictionary:
		n := head.sub(7).num(1)
		if b, err = unpack(b, whole, codec); err != nil {
			return 0, err
		}
		if n < 0 || n > int64(len(b))*8 {
			return 0, errDamaged
		}
		return 0, c.values(&c.dict, b, int(n))
	case pageData:
		d := head.sub(5)
		n, encoding = d.num(1), d.num(2)
		if b, err = unpack(b, whole, codec); err != nil {
			return 0, err
		}
		if c.optional {
			if len(b) < 4 || int64(binary.LittleEndian.Uint32(b)) > int64(len(b)-4) {
				return 0, errDamaged
			}
			k := 4 + int(binary.LittleEndian.Uint32(b))
			levels, b = b[4:k], b[k:]
		}
	case pageData2:
		d := head.sub(8)
		n, encoding = d.num(1), d.num(4)
		k, rep := d.num(5), d.num(6)
		if k < 0 || rep != 0 || k > int64(len(b)) {
			return 0, errDamaged
		}
		levels, b = b[:k], b[k:]
		if packed, ok := d[7].(bool); !ok || packed {
			if b, err = unpack(b, whole-int(k), codec); err != nil {
				return 0, err
			}
		}
	default:
		return 0, nil // an index
	}
	if n < 0 || n > int64(toCome) {
		return 0, errDamaged
	}
	return n, c.rows(levels, b, int(n), encoding)
}

// rows appends n rows. levels says which rows have a value, and b has the values.
func (c *column) rows(levels, b []byte, n int, encoding int64) error {
	present := n
	var has []uint32
	if c.optional {
		var err error
		if has, err = hybrid(levels, n, 1); err != nil {
			return err
		}
		present = 0
		for _, h := range has {
			present += int(h)
		}
	}
	found := Column{Kind: c.Kind}
	switch encoding {
	case plain:
		if err := c.values(&found, b, present); err != nil {
			return err
		}
	case plainDictionary, rleDictionary:
		if present > 0 {
			if len(b) == 0 {
				return errDamaged
			}
			at, err := hybrid(b[1:], present, int(b[0]))
			if err != nil {
				return err
			}
			for _, i := range at {
				if int64(i) >= int64(c.dict.Len()) {
					return errDamaged
				}
				found.take(&c.dict, int(i))
			}
		}
	case rle: // of truth values
		if c.Kind != Bool || len(b) < 4 {
			return unknownError(fmt.Sprintf("its encoding %d is not known here", encoding))
		}
		bits, err := hybrid(b[4:], present, 1)
		if err != nil {
			return err
		}
		for _, v := range bits {
			found.Ints = append(found.Ints, int64(v))
		}
	default:
		return unknownError(fmt.Sprintf("its encoding %d is not known here; write the file with pyarrow's defaults", encoding))
	}
	if has == nil {
		c.all(&found)
		return nil
	}
	next := 0
	for _, h := range has {
		c.Null = append(c.Null, h == 0)
		if h == 0 {
			c.zero()
			continue
		}
		c.take(&found, next)
		next++
	}
	return nil
}

// take appends value i of another column.
func (c *Column) take(from *Column, i int) {
	switch c.Kind {
	case Float:
		c.Floats = append(c.Floats, from.Floats[i])
	case Text:
		c.Texts = append(c.Texts, from.Texts[i])
	default:
		c.Ints = append(c.Ints, from.Ints[i])
	}
}

func (c *Column) all(from *Column) {
	c.Ints, c.Floats, c.Texts = append(c.Ints, from.Ints...), append(c.Floats, from.Floats...), append(c.Texts, from.Texts...)
}

func (c *Column) zero() {
	switch c.Kind {
	case Float:
		c.Floats = append(c.Floats, 0)
	case Text:
		c.Texts = append(c.Texts, "")
	default:
		c.Ints = append(c.Ints, 0)
	}
}

// values appends n values to a column of this one's type, as they are written plainly.
func (c *column) values(to *Column, b []byte, n int) error {
	size := map[int64]int{typeInt32: 4, typeFloat: 4, typeInt64: 8, typeDouble: 8, typeBytes: 4}[c.physical]
	if c.physical == typeBool {
		if len(b)*8 < n {
			return errDamaged
		}
		for i := range n {
			to.Ints = append(to.Ints, int64(b[i/8]>>(i%8)&1))
		}
		return nil
	}
	if len(b)/size < n {
		return errDamaged
	}
	if c.physical == typeBytes {
		return to.texts(b, n)
	}
	le := binary.LittleEndian
	for i := range n {
		at := b[i*size:]
		switch c.physical {
		case typeInt32:
			v := int64(int32(le.Uint32(at)))
			if c.unsigned {
				v &= 1<<32 - 1
			}
			to.Ints = append(to.Ints, v)
		case typeInt64:
			to.Ints = append(to.Ints, int64(le.Uint64(at)))
		case typeFloat:
			to.Floats = append(to.Floats, float64(math.Float32frombits(le.Uint32(at))))
		case typeDouble:
			to.Floats = append(to.Floats, math.Float64frombits(le.Uint64(at)))
		}
	}
	return nil
}

// texts appends n texts, which share one allocation.
func (c *Column) texts(b []byte, n int) error {
	all := string(b)
	at := 0
	for range n {
		if len(b)-at < 4 {
			return errDamaged
		}
		k := int64(binary.LittleEndian.Uint32(b[at:]))
		if at += 4; k > int64(len(b)-at) {
			return errDamaged
		}
		c.Texts = append(c.Texts, all[at:at+int(k)])
		at += int(k)
	}
	return nil
}

// hybrid reads n numbers of so many bits, in runs and packed by eight.
func hybrid(b []byte, n, bits int) ([]uint32, error) {
	if bits < 0 || bits > 32 {
		return nil, errDamaged
	}
	out := make([]uint32, 0, min(n, 1<<20))
	for len(out) < n {
		head, k := binary.Uvarint(b)
		if k <= 0 {
			return nil, errDamaged
		}
		b = b[k:]
		if head&1 == 0 {
			size := (bits + 7) / 8
			if len(b) < size || head>>1 == 0 || head>>1 > uint64(n-len(out)) {
				return nil, errDamaged
			}
			v := uint32(0)
			for i := range size {
				v |= uint32(b[i]) << (8 * i)
			}
			b = b[size:]
			for range head >> 1 {
				out = append(out, v)
			}
			continue
		}
		groups := head >> 1
		if groups == 0 || groups > uint64(len(b))+1 && bits > 0 || groups > maxRows/8 {
			return nil, errDamaged
		}
		size := int(groups) * bits
		if size > len(b) {
			return nil, errDamaged
		}
		for i := range min(int(groups)*8, n-len(out)) {
			v := uint32(0)
			for j := range bits {
				at := i*bits + j
				v |= uint32(b[at/8]>>(at%8)&1) << j
			}
			out = append(out, v)
		}
		b = b[size:]
	}
	return out, nil
}
