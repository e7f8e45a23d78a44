package units

import "math"

// Estimate is how one measurement relates to another, with the interval in which the truth lies.
// Ratio and Gain take it as a ratio (1 is no difference), Percent as a share (0 is none).
//
// With an interval, value and ends are written to the place of the first digit of the half width,
// or of the distance to the nearer end. Lower digits say nothing. One more digit is written where
// that digit is 1 and the value would have only one. Digits are also added where an end would look
// like "no difference" though it is not, has no digit at a place of tens, or a ratio would look like 0. Without an interval, the value has two
// significant digits and a "~" before it.
type Estimate struct {
	Value  float64
	Lo, Hi float64 // of the interval
}

// Rough returns an estimate without an interval.
func Rough(v float64) Estimate { return Estimate{v, math.NaN(), math.NaN()} }

// sure reports whether e has an interval.
func (e Estimate) sure() bool { return known(e.Lo) && known(e.Hi) && e.Lo <= e.Hi }

// asGain turns a ratio into a change in percent; asPercent turns a share into percent.
func (e Estimate) asGain() Estimate {
	return Estimate{100 * (e.Value - 1), 100 * (e.Lo - 1), 100 * (e.Hi - 1)}
}

func (e Estimate) asPercent() Estimate { return Estimate{100 * e.Value, 100 * e.Lo, 100 * e.Hi} }

// tenfold is the ratio from which a gain is written as a ratio: "+1,200 %" is hard to grasp, "x13"
// is not.
const tenfold = 10

// place returns the power of ten of the last digit to write, and at least finest. none is the value
// that means no difference.
func (e Estimate) place(none float64, finest int) int {
	if !e.sure() {
		if e.Value == 0 {
			return finest
		}
		return max(last(e.Value, 2), finest)
	}
	p := finest
	half := (e.Hi - e.Lo) / 2
	if near := min(e.Value-e.Lo, e.Hi-e.Value); near > 0 {
		half = min(half, near)
	}
	if half > 0 {
		p = last(half, 1)
		unit := math.Pow10(p)
		if differs := e.Lo > none || e.Hi < none; differs && half < 1.95*unit && math.Abs(e.Value) < 9.5*unit {
			p-- // rounding to one digit could move the value by half of a half width that begins with 1
		}
		p = max(p, finest)
		for p > 0 && (near0(e.Lo, none, p) || near0(e.Hi, none, p)) { // +77 is not written as +100
			p--
		}
	}
	for p > finest && (e.Lo != none && round(e.Lo, p) == none || e.Hi != none && round(e.Hi, p) == none || none == 1 && e.Lo > 0 && round(e.Lo, p) == 0) {
		p--
	}
	return p
}

// near0 reports whether an end lies so near to no difference that it has no digit at the place.
func near0(end, none float64, place int) bool {
	return end != none && math.Abs(end-none) < math.Pow10(place)
}

// last returns the power of ten of the last of n significant digits of v, after rounding to them.
func last(v float64, n int) int {
	v = math.Abs(v)
	p := exponent(v) - n + 1
	return exponent(round(v, p)) - n + 1
}

// exponent returns the power of ten of the first digit of v > 0.
func exponent(v float64) int {
	e := int(math.Floor(math.Log10(v)))
	if v >= math.Pow10(e+1) { // Log10 was slightly too small
		e++
	}
	return e
}

// round rounds v to the digit at 10^place.
func round(v float64, place int) float64 {
	if place > 0 {
		p := math.Pow10(place)
		return math.Round(v/p) * p
	}
	p := math.Pow10(-place)
	return math.Round(v*p) / p
}

// digits writes v to the given place, with a sign if signed.
func digits(b []byte, v float64, place int, signed bool) []byte {
	v = round(v, place)
	switch decimals := max(-place, 0); {
	case signed:
		return appendSigned(b, v, decimals)
	case v < 0:
		return appendRounded(append(b, '-'), -v, decimals)
	default:
		return appendRounded(b, math.Abs(v), decimals)
	}
}

// Finest places: a ratio has at most three decimals, a percentage one.
const (
	finestRatio   = -3
	finestPercent = -1
)

// AppendRatio writes e as a ratio: x1.34, or ~x1.3.
func (f Form) AppendRatio(b []byte, e Estimate) []byte {
	if !known(e.Value) {
		return append(b, missing)
	}
	return digits(append(e.mark(b), 'x'), e.Value, e.place(1, finestRatio), false)
}

// Ratio is AppendRatio as a string.
func (f Form) Ratio(e Estimate) string { return string(f.AppendRatio(nil, e)) }

// appendRatioRange writes the interval of a ratio: "1.31 to 1.37", narrow
// "1.31..1.37".
func (f Form) appendRatioRange(b []byte, e Estimate) []byte {
	return f.between(b, e, e.place(1, finestRatio), false)
}

// RatioRange returns the interval of a ratio.
func (f Form) RatioRange(e Estimate) string { return string(f.appendRatioRange(nil, e)) }

// AppendGain writes a ratio as a change: "+34 %", "~+34 %". From tenfold on it writes a ratio.
func (f Form) AppendGain(b []byte, e Estimate) []byte {
	switch {
	case !known(e.Value):
		return append(b, missing)
	case e.Value >= tenfold:
		return f.AppendRatio(b, e)
	}
	g := e.asGain()
	return f.unit(digits(e.mark(b), g.Value, g.place(0, finestPercent), true), "%")
}

// Gain is AppendGain as a string.
func (f Form) Gain(e Estimate) string { return string(f.AppendGain(nil, e)) }

// AppendGainRange writes the interval of a change: "+31 to +37 %". From tenfold on it is that of a
// ratio: "x12 to 15".
func (f Form) AppendGainRange(b []byte, e Estimate) []byte {
	if known(e.Value) && e.Value >= tenfold {
		if e.sure() {
			b = append(b, 'x')
		}
		return f.appendRatioRange(b, e)
	}
	g := e.asGain()
	p := g.place(0, finestPercent)
	for e.Lo > 0 && round(g.Lo, p) <= -100 { // the rate that is left is not 0
		if p--; p < finestPercent {
			p, g.Lo = finestPercent, -99.9
		}
	}
	return f.percents(b, g, p, true)
}

// GainRange is AppendGainRange as a string.
func (f Form) GainRange(e Estimate) string { return string(f.AppendGainRange(nil, e)) }

// PercentOf writes a share with the digits of its interval: "23 %", "~23 %".
func (f Form) PercentOf(e Estimate) string {
	if !known(e.Value) {
		return string(missing)
	}
	p := e.asPercent()
	return string(f.unit(digits(e.mark(nil), p.Value, p.place(0, finestPercent), false), "%"))
}

// PercentRange returns the interval of a share: "21 to 26 %".
func (f Form) PercentRange(e Estimate) string {
	p := e.asPercent()
	return string(f.percents(nil, p, p.place(0, finestPercent), false))
}

// percents writes the interval of a value that is already in percent.
func (f Form) percents(b []byte, e Estimate, place int, signed bool) []byte {
	if !e.sure() {
		return append(b, missing)
	}
	return f.unit(f.between(b, e, place, signed), "%")
}

func (f Form) between(b []byte, e Estimate, place int, signed bool) []byte {
	if !e.sure() {
		return append(b, missing)
	}
	b = digits(b, e.Lo, place, signed)
	if f == Prose {
		b = append(b, " to "...)
	} else {
		b = append(b, ".."...)
	}
	return digits(b, e.Hi, place, signed)
}

// mark writes the sign of an estimate without an interval.
func (e Estimate) mark(b []byte) []byte {
	if e.sure() {
		return b
	}
	return append(b, '~')
}
