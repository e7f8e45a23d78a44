package units

import (
	"math"
	"strings"
	"testing"
)

var nan, inf = math.NaN(), math.Inf(1)

type want struct{ got, want string }

func check(t *testing.T, rows []want) {
	t.Helper()
	for i, r := range rows {
		if r.got != r.want {
			t.Errorf("row %d: %q, want %q", i, r.got, r.want)
		}
	}
}

func exact(f Form, ns int64) string { return string(f.AppendExact(nil, ns)) }

func TestTime(t *testing.T) {
	for _, r := range []struct {
		ns            int64
		prose, narrow string
	}{
		{0, "0 s", "0s"},
		{1, "1 ns", "1ns"},
		{999, "999 ns", "999ns"},
		{1000, "1.00 µs", "1.00µs"},
		{12_340, "12.3 µs", "12.3µs"},
		{9_994, "9.99 µs", "9.99µs"},
		{9_995, "10.0 µs", "10.0µs"},
		{99_950, "100 µs", "100µs"},
		{999_499, "999 µs", "999µs"},
		{999_500, "1.00 ms", "1.00ms"},
		{41_230_000, "41.2 ms", "41.2ms"},
		{999_499_999, "999 ms", "999ms"},
		{999_500_000, "1.00 s", "1.00s"},
		{1_500_000_000, "1.50 s", "1.50s"},
		{180e9, "180 s", "180s"},
		{599_499_999_999, "599 s", "599s"},
		{599_500_000_000, "10 min 00 s", "10m00s"},
		{725e9, "12 min 05 s", "12m05s"},
		{3_599_499_999_999, "59 min 59 s", "59m59s"},
		{3_599_500_000_000, "1 h 00 min", "1h00m"},
		{12_345e9, "3 h 26 min", "3h26m"},
		{359_969e9, "99 h 59 min", "99h59m"},
		{359_970e9, "100 h", "100h"},
		{math.MaxInt64, "2,562,048 h", "2,562,048h"},
		{math.MinInt64, "-2,562,048 h", "-2,562,048h"},
		{-2e6, "-2.00 ms", "-2.00ms"},
		{-725e9, "-12 min 05 s", "-12m05s"},
	} {
		check(t, []want{{Prose.Time(r.ns), r.prose}, {Narrow.Time(r.ns), r.narrow}})
	}
	check(t, []want{
		{exact(Prose, 0), "0 s"}, {exact(Prose, 100e3), "100 µs"}, {exact(Prose, 5e6), "5 ms"}, {exact(Prose, 1500e6), "1,500 ms"},
		{exact(Narrow, 2e9), "2s"}, {exact(Prose, 7), "7 ns"}, {exact(Prose, -5e6), "-5 ms"},
		{Clock(0), "00:00:00"}, {Clock(3_723e9 + 999e6), "01:02:03"}, {Clock(-61e9), "-00:01:01"}, {Clock(400_000e9), "111:06:40"},
		{Clock(math.MaxInt64), "2562047:47:16"}, {Clock(math.MinInt64), "-00:00:00"},
	})
}

func TestBytes(t *testing.T) {
	check(t, []want{
		{Prose.Bytes(0), "0 B"}, {Prose.Bytes(1023), "1,023 B"}, {Prose.Bytes(1024), "1.00 KiB"}, {Prose.Bytes(1536), "1.50 KiB"},
		{Prose.Bytes(1<<20 - 1), "1.00 MiB"}, {Prose.Bytes(1023 << 10), "1,023 KiB"}, {Prose.Bytes(364 << 20 / 10), "36.4 MiB"},
		{Prose.Bytes(80 << 30), "80.0 GiB"}, {Prose.Bytes(3 << 40), "3.00 TiB"}, {Prose.Bytes(math.MaxInt64), "8,192 PiB"},
		{Prose.Bytes(math.MinInt64), "-8,192 PiB"}, {Prose.Bytes(-2048), "-2.00 KiB"}, {Narrow.Bytes(364 << 20 / 10), "36.4MiB"},
		{Prose.Transfer(0), "0 B/s"}, {Prose.Transfer(999.4), "999 B/s"}, {Prose.Transfer(999.5), "1.00 kB/s"},
		{Prose.Transfer(999.5e6), "1.00 GB/s"}, {Prose.Transfer(11.9e9), "11.9 GB/s"}, {Narrow.Transfer(11.94e9), "11.9GB/s"},
		{Prose.Transfer(-812e3), "-812 kB/s"}, {Prose.Transfer(4e18), "4,000 PB/s"}, {Prose.Transfer(nan), "-"}, {Prose.Transfer(inf), "-"},
	})
}

func TestPercent(t *testing.T) {
	check(t, []want{
		{Prose.Percent(0), "0.0 %"}, {Prose.Percent(0.468), "46.8 %"}, {Prose.Percent(0.9994), "99.9 %"}, {Prose.Percent(0.9996), "100 %"},
		{Prose.Percent(1), "100 %"}, {Prose.Percent(12.5), "1,250 %"}, {Prose.Percent(0.0004), "0.0 %"}, {Prose.Percent(0.0006), "0.1 %"},
		{Prose.Percent(-0.0004), "0.0 %"}, {Prose.Percent(-0.034), "-3.4 %"}, {Prose.Percent(nan), "-"}, {Prose.Percent(-inf), "-"},
		{Narrow.Percent(0.613), "61.3%"}, {Narrow.Percent(1), "100%"}, {Narrow.Percent(nan), "-"},
		{Points(0.2613), "+26.1 points"}, {Points(-0.031), "-3.1 points"}, {Points(-0.0004), "0.0 points"}, {Points(nan), "-"},
	})
}

func TestCountAndRate(t *testing.T) {
	check(t, []want{
		{Count(0), "0"}, {Count(999), "999"}, {Count(4180), "4,180"}, {Count(-1234567), "-1,234,567"}, {Count(int32(math.MinInt32)), "-2,147,483,648"},
		{Count(int64(math.MaxInt64)), "9,223,372,036,854,775,807"}, {Count(int64(math.MinInt64)), "-9,223,372,036,854,775,808"},
		{Counted(1, "step", "steps"), "1 step"}, {Counted(0, "step", "steps"), "0 steps"}, {Counted(4180, "step", "steps"), "4,180 steps"},
		{Rate(0), "0"}, {Rate(0.0004), "<0.001"}, {Rate(0.0123), "0.012"}, {Rate(0.5432), "0.543"}, {Rate(0.9996), "1.00"},
		{Rate(9.996), "10.0"}, {Rate(12.13), "12.1"}, {Rate(99.96), "100"}, {Rate(226.42), "226"}, {Rate(999.6), "1,000"},
		{Rate(1553.4), "1,553"}, {Rate(1e19), "1e+19"}, {Rate(-12.13), "-12.1"}, {Rate(-0.0001), "0"}, {Rate(nan), "-"}, {Rate(inf), "-"},
		{Loss(2.30259), "2.303"}, {Loss(nan), "NaN"}, {Loss(inf), "+Inf"},
	})
}

func TestEstimate(t *testing.T) {
	for _, r := range []struct {
		e                              Estimate
		ratio, ratios, gain, gainRange string
	}{
		{Estimate{1.341, 1.312, 1.371}, "x1.34", "1.31 to 1.37", "+34 %", "+31 to +37 %"},
		{Estimate{1.3414, 1.3384, 1.3444}, "x1.341", "1.338 to 1.344", "+34.1 %", "+33.8 to +34.4 %"},
		{Estimate{13.256, 11.9, 14.7}, "x13", "12 to 15", "x13", "x12 to 15"},
		{Estimate{2.045, 1.6, 2.6}, "x2.0", "1.6 to 2.6", "+100 %", "+60 to +160 %"},
		{Estimate{2.517, 1.56, 3.91}, "x2.5", "1.6 to 3.9", "+150 %", "+60 to +290 %"}, // not x3, nor +200 %
		{Estimate{0.9, 0.88, 0.92}, "x0.90", "0.88 to 0.92", "-10 %", "-12 to -8 %"},
		{Estimate{1, 0.99, 1.012}, "x1.00", "0.99 to 1.01", "0 %", "-1 to +1 %"},                    // 1 % to the nearest
		{Estimate{1.04, 1.001, 1.08}, "x1.040", "1.001 to 1.080", "+4.0 %", "+0.1 to +8.0 %"},       // apart from 1, and so it reads
		{Estimate{1.02, 0.998, 1.042}, "x1.020", "0.998 to 1.042", "+2.0 %", "-0.2 to +4.2 %"},      // reaches below 1, and so it reads
		{Estimate{1.5, 1.5, 1.5}, "x1.500", "1.500 to 1.500", "+50.0 %", "+50.0 to +50.0 %"},        // no spread: the finest place
		{Estimate{1.00001, 1.000005, 1.00002}, "x1.000", "1.000 to 1.000", "0.0 %", "0.0 to 0.0 %"}, // nor beyond it
		{Estimate{130, 70, 190}, "x130", "70 to 190", "x130", "x70 to 190"},
		{Estimate{1300, 500, 2100}, "x1,300", "500 to 2,100", "x1,300", "x500 to 2,100"},
		{Estimate{28.77, 2.1, 395}, "x29", "2 to 395", "x29", "x2 to 395"},            // one-sided: the nearer end's digits
		{Estimate{6.713, 1.768, 25.49}, "x7", "2 to 25", "+570 %", "+80 to +2,450 %"}, // an end near 0 has a digit of its own
		{Estimate{1.24, 1.07, 1.47}, "x1.2", "1.1 to 1.5", "+24 %", "+7 to +47 %"},
		{Estimate{0.2, 0.04, 1.5}, "x0.20", "0.04 to 1.50", "-80 %", "-96 to +50 %"}, // no loss is written as if nothing were left
		{Rough(1.341), "~x1.3", "-", "~+34 %", "-"},
		{Rough(13.256), "~x13", "-", "~x13", "-"},
		{Rough(1325.6), "~x1,300", "-", "~x1,300", "-"},
		{Rough(0.0512), "~x0.051", "-", "~-95 %", "-"},
		{Rough(1.0034), "~x1.0", "-", "~+0.3 %", "-"},
		{Rough(0.996), "~x1.0", "-", "~-0.4 %", "-"},
		{Rough(1), "~x1.0", "-", "~0.0 %", "-"},
		{Rough(0), "~x0.000", "-", "~-100 %", "-"},
		{Estimate{2, 3, 1}, "~x2.0", "-", "~+100 %", "-"}, // ends the wrong way round are none
		{Estimate{2, nan, inf}, "~x2.0", "-", "~+100 %", "-"},
		{Rough(nan), "-", "-", "-", "-"},
		{Rough(inf), "-", "-", "-", "-"},
	} {
		check(t, []want{{Prose.Ratio(r.e), r.ratio}, {string(Prose.appendRatioRange(nil, r.e)), r.ratios}, {Prose.Gain(r.e), r.gain}, {Prose.GainRange(r.e), r.gainRange}})
	}
	e := Estimate{0.2312, 0.211, 0.256}
	check(t, []want{
		{Prose.PercentOf(e), "23 %"}, {Prose.PercentRange(e), "21 to 26 %"}, {Narrow.PercentOf(e), "23%"}, {Narrow.PercentRange(e), "21..26%"},
		{Prose.PercentOf(Rough(0.2312)), "~23 %"}, {Prose.PercentRange(Rough(0.2312)), "-"}, {Prose.PercentOf(Rough(nan)), "-"},
		{Prose.PercentOf(Estimate{-0.02, -0.05, 0.011}), "-2 %"}, {Prose.PercentRange(Estimate{-0.02, -0.05, 0.011}), "-5 to 1 %"},
		{Narrow.Gain(Estimate{1.341, 1.312, 1.371}), "+34%"}, {Narrow.GainRange(Estimate{1.341, 1.312, 1.371}), "+31..+37%"},
		{string(Narrow.appendRatioRange(nil, Estimate{13.256, 11.9, 14.7})), "12..15"}, {Narrow.Gain(Rough(1.341)), "~+34%"},
	})
}

// The two forms differ in nothing but spaces and the word between two ends.
func TestForms(t *testing.T) {
	squeeze := strings.NewReplacer(" min", "m", " to ", "..", " ", "").Replace
	e := Estimate{1.341, 1.312, 1.371}
	for _, f := range []func(Form) string{
		func(f Form) string { return f.Time(41_230_000) },
		func(f Form) string { return f.Time(725e9) },
		func(f Form) string { return exact(f, 5e6) },
		func(f Form) string { return f.Bytes(1e9) },
		func(f Form) string { return f.Transfer(1e9) },
		func(f Form) string { return f.Percent(0.468) },
		func(f Form) string { return f.Gain(e) },
		func(f Form) string { return f.GainRange(e) },
	} {
		if got, want := f(Narrow), squeeze(f(Prose)); got != want {
			t.Errorf("narrow %q, prose %q", got, f(Prose))
		}
	}
}

// The screen calls these for every frame.
func TestAppendAllocatesNothing(t *testing.T) {
	var buf [64]byte
	e := Estimate{1.341, 1.312, 1.371}
	if n := testing.AllocsPerRun(100, func() {
		b := Narrow.AppendTime(buf[:0], 41_230_000)
		b = Narrow.AppendPercent(b, 0.468)
		b = Narrow.AppendBytes(b, 1e9)
		b = Narrow.AppendGain(b, e)
		b = Narrow.AppendGainRange(b, e)
		b = AppendRate(b, 1553)
		AppendClock(b, 725e9)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestBind: a number and its unit are one word, and nothing else is.
func TestBind(t *testing.T) {
	for text, words := range map[string]int{
		"it took 41.7 ms of 100 %": 5, "12 steps, 1 step": 2, "36.4 MiB at 812 kB/s": 3, "4 workers on 2 threads": 5, "950 ns, 12.3 µs": 2, "1 min 05 s": 2, "": 0,
	} {
		if got := strings.Fields(Bind(text)); len(got) != words || Unbind(strings.Join(got, " ")) != text {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestRanges(t *testing.T) {
	for _, c := range []struct {
		of   []int
		want string
	}{{nil, ""}, {[]int{3}, "3"}, {[]int{0, 1, 2, 5}, "0-2, 5"}, {[]int{1, 3, 4}, "1, 3-4"}} {
		if got := Ranges(c.of, ", "); got != c.want {
			t.Errorf("%v: %q, want %q", c.of, got, c.want)
		}
	}
}
