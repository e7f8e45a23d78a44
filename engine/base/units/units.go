// Package units writes every number that a person reads: times, sizes, rates,
// shares, counts, and how one measurement relates to another. The screen, the
// report, the headless lines and the messages all use it, so that a number is
// spelt the same wherever it stands.
//
// There are two forms. [Prose] puts a space between a number and its unit, for
// sentences, messages and the report's tables: "41.2 ms", "46.8 %". [Narrow] puts
// none, for the columns and gauges of the screen: "41.2ms", "46.8%". Nothing else
// differs between them.
//
// The spelling, in the prose form:
//
//	times        950 ns, 12.3 µs, 41.2 ms, 1.50 s, 12 min 05 s, 3 h 25 min
//	moments      01:02:03, as a clock has it (hours, minutes, seconds)
//	sizes        512 B, 1.50 KiB, 36.4 MiB, 80.0 GiB: units of 1024
//	transfer     812 kB/s, 11.9 GB/s: units of 1000, as buses and disks are rated
//	rates        0.543, 12.1, 1,553: of anything else; the unit follows
//	shares       0.0 %, 4.7 %, 46.8 %, 100 %
//	counts       4,180
//	money        $0.90
//
// Measured values have three significant digits; whole numbers have all of theirs. They
// are rounded to the nearest: 999.5 ms is 1.00 s. A share has one decimal below
// 100 %. What is not a number, or not finite, is "-".
//
// How two measurements relate is an [Estimate], and its digits follow from its
// interval: one that reaches from 12 to 15 says x13, not x13.256.
package units

import (
	"math"
	"strconv"
)

// Form is how a number and its unit are set.
type Form uint8

// The two forms.
const (
	Prose  Form = iota // "41.2 ms": sentences, messages, tables of the report
	Narrow             // "41.2ms": columns and gauges of the screen
)

// missing stands where there is no number.
const missing = '-'

// known reports whether v is a number to be written.
func known(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// unit writes a unit after a number.
func (f Form) unit(b []byte, name string) []byte {
	if f == Prose {
		b = append(b, ' ')
	}
	return append(b, name...)
}

// appendGrouped writes n with a comma at every third digit.
func appendGrouped(b []byte, n uint64) []byte {
	var buf [20]byte
	digits := strconv.AppendUint(buf[:0], n, 10)
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b = append(b, ',')
		}
		b = append(b, d)
	}
	return b
}

// appendRounded writes v >= 0 with so many decimals, and commas where it has none.
func appendRounded(b []byte, v float64, decimals int) []byte {
	if decimals > 0 {
		return strconv.AppendFloat(b, v, 'f', decimals, 64)
	}
	if v = math.Round(v); v < 1<<63 {
		return appendGrouped(b, uint64(v))
	}
	return strconv.AppendFloat(b, v, 'g', 3, 64)
}

// appendThree writes v >= 0 with three significant digits, three decimals at the
// most, and all the digits of a whole number.
func appendThree(b []byte, v float64) []byte {
	switch {
	case v < 0.9995:
		return appendRounded(b, v, 3)
	case v < 9.995:
		return appendRounded(b, v, 2)
	case v < 99.95:
		return appendRounded(b, v, 1)
	}
	return appendRounded(b, v, 0)
}

// Integer is any type of a number of things.
type Integer interface {
	~int | ~int32 | ~int64
}

// AppendCount writes a number of things: 4,180.
func AppendCount[N Integer](b []byte, n N) []byte {
	if n < 0 {
		return appendGrouped(append(b, '-'), -uint64(n))
	}
	return appendGrouped(b, uint64(n))
}

// Count is AppendCount as a string.
func Count[N Integer](n N) string { return string(AppendCount(nil, n)) }

// Counted returns a number of things with their name: "1 step", "4,180 steps".
func Counted[N Integer](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Count(n) + " " + many
}

// AppendRate writes how many things a second, or in any other unit, which the
// caller names: 0.543, 12.1, 1,553. What would round to 0 but is not is "<0.001".
func AppendRate(b []byte, v float64) []byte {
	switch {
	case !known(v):
		return append(b, missing)
	case v > 0 && v < 0.0005:
		return append(b, "<0.001"...)
	case v <= -0.0005:
		b, v = append(b, '-'), -v
	case v < 0.0005:
		return append(b, '0')
	}
	return appendThree(b, v)
}

// Rate is AppendRate as a string.
func Rate(v float64) string { return string(AppendRate(nil, v)) }

// Cores returns how many cores something uses, on average: 1.9.
func Cores(n float64) string { return strconv.FormatFloat(n, 'f', 1, 64) }

// AppendLoss writes a training loss, which has no unit: 2.303. One that diverged is
// "NaN" or "Inf", which is news and not a missing number.
func AppendLoss(b []byte, v float64) []byte { return strconv.AppendFloat(b, v, 'f', 3, 64) }

// Loss is AppendLoss as a string.
func Loss(v float64) string { return string(AppendLoss(nil, v)) }

// AppendLearningRate writes a learning rate, which has no unit: 0.0953, 4e-06.
func AppendLearningRate(b []byte, v float64) []byte { return strconv.AppendFloat(b, v, 'g', 3, 64) }

// LearningRate is AppendLearningRate as a string.
func LearningRate(v float64) string { return string(AppendLearningRate(nil, v)) }

// AppendPercent writes a share of 0 to 1: 46.8 %.
func (f Form) AppendPercent(b []byte, share float64) []byte {
	v := 100 * share
	if !known(v) {
		return append(b, missing)
	}
	if v <= -0.05 {
		b = append(b, '-')
	}
	v = math.Abs(v)
	decimals := 1
	if v >= 99.95 {
		decimals = 0
	}
	return f.unit(appendRounded(b, v, decimals), "%")
}

// Percent is AppendPercent as a string.
func (f Form) Percent(share float64) string { return string(f.AppendPercent(nil, share)) }

// Points returns the difference of two shares in percentage points: "+26.1 points".
func Points(difference float64) string {
	v := 100 * difference
	if !known(v) {
		return string(missing)
	}
	return string(appendSigned(nil, v, 1)) + " points"
}

// appendSigned writes v with its sign and so many decimals; what rounds to 0 has no
// sign.
func appendSigned(b []byte, v float64, decimals int) []byte {
	if unsigned := math.Abs(v); unsigned >= 0.5*math.Pow10(-decimals) {
		sign := byte('+')
		if v < 0 {
			sign = '-'
		}
		return appendRounded(append(b, sign), unsigned, decimals)
	}
	return appendRounded(b, 0, decimals)
}

var (
	sizeUnits     = [...]string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	transferUnits = [...]string{"B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"}
)

// Dollars returns an amount of money: $0.90.
func Dollars(v float64) string {
	if !known(v) {
		return string(missing)
	}
	return "$" + strconv.FormatFloat(v, 'f', 2, 64)
}

// AppendBytes writes a size in memory or in a file, in units of 1024: 36.4 MiB.
func (f Form) AppendBytes(b []byte, n int64) []byte {
	return f.scaled(b, float64(n), 1024, sizeUnits[:])
}

// Bytes is AppendBytes as a string.
func (f Form) Bytes(n int64) string { return string(f.AppendBytes(nil, n)) }

// AppendTransfer writes bytes a second, in units of 1000: 11.9 GB/s.
func (f Form) AppendTransfer(b []byte, perSecond float64) []byte {
	if !known(perSecond) {
		return append(b, missing)
	}
	return f.scaled(b, perSecond, 1000, transferUnits[:])
}

// Transfer is AppendTransfer as a string.
func (f Form) Transfer(perSecond float64) string { return string(f.AppendTransfer(nil, perSecond)) }

// scaled writes v in the smallest unit in which it does not round up to the next.
func (f Form) scaled(b []byte, v, base float64, units []string) []byte {
	if v < 0 {
		b, v = append(b, '-'), -v
	}
	if v < base-0.5 {
		return f.unit(appendRounded(b, v, 0), units[0])
	}
	i := 0
	for v >= base-0.5 && i < len(units)-1 {
		v /= base
		i++
	}
	return f.unit(appendThree(b, v), units[i])
}

// Decimal writes a number of the scale of a chart, with as many decimals as its step
// has: 1,500, 0.25.
func Decimal(v float64, decimals int) string {
	if !known(v) {
		return string(missing)
	}
	return string(digits(nil, v, -decimals, false))
}
