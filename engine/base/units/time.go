package units

import "strconv"

// Limits between units of time, in ns: from there on, three digits of the smaller unit would round
// up to the larger one.
const (
	micro = 1e3
	milli = 1e6
	sec   = 1e9

	wholeMinutes = 599.5 * sec // from here on in minutes and seconds
	wholeHours   = 3599.5 * sec
)

// AppendTime writes a measured time of ns nanoseconds: 41.2 ms.
func (f Form) AppendTime(b []byte, ns int64) []byte {
	v := float64(ns)
	if ns < 0 {
		b, v = append(b, '-'), -v
	}
	switch {
	case ns == 0:
		return f.unit(append(b, '0'), "s")
	case v < micro:
		return f.unit(strconv.AppendInt(b, int64(v), 10), "ns")
	case v < 999.5*micro:
		return f.unit(appendThree(b, v/micro), "µs")
	case v < 999.5*milli:
		return f.unit(appendThree(b, v/milli), "ms")
	case v < wholeMinutes:
		return f.unit(appendThree(b, v/sec), "s")
	case v < wholeHours:
		return f.two(b, int64(v/sec+0.5), "min", "s")
	}
	return f.two(b, int64(v/(60*sec)+0.5), "h", "min")
}

// Time is AppendTime as a string.
func (f Form) Time(ns int64) string { return string(f.AppendTime(nil, ns)) }

// two writes n of the small unit, 60 of which are one of the large unit: "12 min 05 s". From 100 of
// the large unit on it writes that alone. Narrow writes "12m05s".
func (f Form) two(b []byte, n int64, large, small string) []byte {
	if f == Narrow { // "min" is too wide beside another unit
		large, small = large[:1], small[:1]
	}
	if n >= 100*60 {
		return f.unit(AppendCount(b, (n+30)/60), large)
	}
	b = f.unit(strconv.AppendInt(b, n/60, 10), large)
	if f == Prose {
		b = append(b, ' ')
	}
	return f.unit(appendTwoDigits(b, n%60), small)
}

func appendTwoDigits(b []byte, n int64) []byte {
	if n < 10 {
		b = append(b, '0')
	}
	return strconv.AppendInt(b, n, 10)
}

// AppendExact writes a time that was chosen rather than measured, such as the width of a column. It
// uses the largest unit up to seconds of which the time is a whole number.
func (f Form) AppendExact(b []byte, ns int64) []byte {
	switch {
	case ns%sec == 0:
		return f.unit(AppendCount(b, ns/sec), "s")
	case ns%milli == 0:
		return f.unit(AppendCount(b, ns/milli), "ms")
	case ns%micro == 0:
		return f.unit(AppendCount(b, ns/micro), "µs")
	}
	return f.unit(AppendCount(b, ns), "ns")
}

// AppendClock writes a moment of the run, or how long it still takes, as hours, minutes and
// seconds: 01:02:03. It rounds down, as a clock does.
func AppendClock(b []byte, ns int64) []byte {
	if ns < 0 {
		b, ns = append(b, '-'), max(-ns, 0)
	}
	s := ns / sec
	b = append(appendTwoDigits(b, s/3600), ':')
	b = append(appendTwoDigits(b, s/60%60), ':')
	return appendTwoDigits(b, s%60)
}

// Clock is AppendClock as a string.
func Clock(ns int64) string { return string(AppendClock(nil, ns)) }
