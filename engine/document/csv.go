package document

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
)

// CSV is a table for programs, whose fields a spreadsheet takes for values only: what
// would begin a formula and is no number gets a quotation mark before it.
type CSV struct{ w *csv.Writer }

// NewCSV writes a table to w.
func NewCSV(w io.Writer) CSV { return CSV{csv.NewWriter(w)} }

// Row writes one. Its error stays until End.
func (t CSV) Row(fields []string) {
	for i, f := range fields {
		if f != "" && f != "-" && strings.IndexByte("=+-@", f[0]) >= 0 {
			if _, err := strconv.ParseFloat(f, 64); err != nil {
				fields[i] = "'" + f
			}
		}
	}
	_ = t.w.Write(fields)
}

// End writes what is left and returns the first error.
func (t CSV) End() error {
	t.w.Flush()
	return t.w.Error()
}
