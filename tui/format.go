package tui

import (
	"math"
	"strconv"

	"dev.gpustall/engine/figures"
)

// appendDur writes ns with three significant digits and a unit: 41.2 ms.
func appendDur(b []byte, ns int64) []byte {
	if ns < 0 {
		b = append(b, '-')
		ns = -ns
	}
	f := float64(ns)
	switch {
	case ns == 0:
		return append(b, "0 ms"...)
	case ns < 1_000:
		return append(strconv.AppendInt(b, ns, 10), " ns"...)
	case f < 999.5e3:
		return append(appendSig(b, f/1e3), " us"...)
	case f < 999.5e6:
		return append(appendSig(b, f/1e6), " ms"...)
	case f < 120e9:
		return append(appendSig(b, f/1e9), " s"...)
	case f < 7200e9:
		return append(appendSig(b, f/60e9), " min"...)
	}
	return append(appendSig(b, f/3600e9), " h"...)
}

// appendSig writes f >= 0 with three significant digits below 1000.
func appendSig(b []byte, f float64) []byte {
	switch {
	case f < 9.995:
		return strconv.AppendFloat(b, f, 'f', 2, 64)
	case f < 99.95:
		return strconv.AppendFloat(b, f, 'f', 1, 64)
	}
	return figures.AppendCount(b, int64(math.Round(f)))
}

// appendPct writes a fraction as a percentage: 61.3%; 100% has no decimal.
func appendPct(b []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(b, '-')
	}
	if f >= 0.9995 {
		return append(strconv.AppendInt(b, int64(math.Round(f*100)), 10), '%')
	}
	return append(strconv.AppendFloat(b, f*100, 'f', 1, 64), '%')
}

// appendDelta writes a ratio as a signed change: +34.1%.
func appendDelta(b []byte, ratio float64) []byte {
	if math.IsNaN(ratio) || math.IsInf(ratio, 0) || ratio <= 0 {
		return append(b, '-')
	}
	f := (ratio - 1) * 100
	switch {
	case f >= 999:
		return strconv.AppendFloat(append(b, 'x'), ratio, 'f', 1, 64)
	case f > -0.05 && f < 0.05:
		return append(b, "0.0%"...)
	case f > 0:
		b = append(b, '+')
	}
	if f >= 99.95 || f <= -99.95 {
		return append(strconv.AppendFloat(b, f, 'f', 0, 64), '%')
	}
	return append(strconv.AppendFloat(b, f, 'f', 1, 64), '%')
}

// appendSize writes bytes with a decimal unit: 412 MB.
func appendSize(b []byte, n float64) []byte {
	units := [...]string{" B", " kB", " MB", " GB", " TB"}
	i := 0
	for n >= 999.5 && i < len(units)-1 {
		n /= 1000
		i++
	}
	if i == 0 {
		return append(strconv.AppendInt(b, int64(n), 10), units[0]...)
	}
	return append(appendSig(b, n), units[i]...)
}

// appendMemory writes device memory in MiB, as the report, the plan and
// nvidia-smi do.
func appendMemory(b []byte, n int64) []byte {
	v, digits := float64(n)/(1<<20), 1
	if v >= 1000 {
		digits = 0
	}
	return append(strconv.AppendFloat(b, v, 'f', digits, 64), " MiB"...)
}

// appendRate writes a number of things a second: 1,553 or 12.1.
func appendRate(b []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(b, '-')
	}
	if v <= 0 {
		return append(b, '0')
	}
	return appendSig(b, v)
}

func durText(ns int64) string    { return string(appendDur(nil, ns)) }
func pctText(f float64) string   { return string(appendPct(nil, f)) }
func rateText(f float64) string  { return string(appendRate(nil, f)) }
func deltaText(f float64) string { return string(appendDelta(nil, f)) }
