// Package parquet reads and writes flat tables as Apache Parquet files
// (https://parquet.apache.org/docs/file-format). Columns hold numbers, text or truth values,
// and may lack a value in some rows. It writes them plain and uncompressed. It reads what
// pyarrow, pandas, DuckDB and Spark write by default: dictionaries, both kinds of data pages,
// Snappy, zstd and gzip.
package parquet

import (
	"fmt"
	"slices"
)

// Kind says what a column holds.
type Kind uint8

// The kinds.
const (
	Int Kind = iota
	Float
	Text
	Bool
)

func (k Kind) String() string { return [...]string{"numbers", "numbers", "text", "true or false"}[k] }

// Column is a column of a table. Its kind says which of the slices is used. If Null is not
// nil, it says which rows have no value. There the slice has a zero.
type Column struct {
	Name   string
	Kind   Kind
	Ints   []int64 // Bool: 0 and 1
	Floats []float64
	Texts  []string
	Null   []bool
}

// Len returns how many rows it has.
func (c *Column) Len() int {
	switch c.Kind {
	case Float:
		return len(c.Floats)
	case Text:
		return len(c.Texts)
	}
	return len(c.Ints)
}

// Has reports whether row i has a value.
func (c *Column) Has(i int) bool { return c.Null == nil || !c.Null[i] }

// Table is the table of a file.
type Table struct {
	Rows    int
	Columns []Column
	About   map[string]string // of the whole file
	Unread  map[string]string // names of columns that Unmarshal left out, and why
}

// Column returns the column with that name, or nil.
func (t *Table) Column(name string) *Column {
	if i := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name }); i >= 0 {
		return &t.Columns[i]
	}
	return nil
}

// check refuses columns of different lengths.
func (t *Table) check() error {
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.Len() != t.Rows || c.Null != nil && len(c.Null) != t.Rows {
			return fmt.Errorf("parquet: column %s has %d rows of %d", c.Name, c.Len(), t.Rows)
		}
	}
	return nil
}

const magic = "PAR1"

// Parquet's own numbers.
const (
	typeBool   = 0
	typeInt32  = 1
	typeInt64  = 2
	typeFloat  = 4
	typeDouble = 5
	typeBytes  = 6

	plain           = 0
	plainDictionary = 2
	rle             = 3
	rleDictionary   = 8

	codecNone   = 0
	codecSnappy = 1
	codecGzip   = 2
	codecZstd   = 6

	convertedDecimal = 5
	unsigned8        = 11 // unsigned numbers of 8, 16, 32
	unsigned64       = 14 // and 64 bits

	pageData       = 0
	pageDictionary = 2
	pageData2      = 3
)
