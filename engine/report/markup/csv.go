package markup

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// CSV is a table for programs. A spreadsheet must not take its fields for formulas, so a
// field that would begin a formula and is not a number gets a quotation mark before it.
type CSV struct{ w *csv.Writer }

// NewCSV returns a table that is written to w.
func NewCSV(w io.Writer) CSV { return CSV{csv.NewWriter(w)} }

// Row writes a row. End returns its error.
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

// End writes what is left and returns the first error of all.
func (t CSV) End() error {
	t.w.Flush()
	return t.w.Error()
}

// Number writes a value as a field, which is empty for NaN and infinity.
func Number(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

// Seconds writes a time in ns as a field in seconds.
func Seconds(ns int64) string { return fmt.Sprintf("%.9f", float64(ns)/1e9) }

// Whole writes a whole number as a field, which is empty for 0.
func Whole(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// YesNo writes a truth value, as a field or as a cell of a table.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
