package summary

import (
	"fmt"
	"math"
)

// number is a float that JSON writes as null if it is not finite.
type number float64

// none is the number that JSON writes as null.
var none = number(math.NaN())

func (n number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return fmt.Appendf(nil, "%.6g", float64(n)), nil
}

// seconds converts nanoseconds.
func seconds(ns int64) number { return number(float64(ns) / 1e9) }

// ns converts a number of seconds to nanoseconds.
func (n number) ns() int64 { return int64(math.Round(float64(n) * 1e9)) }
