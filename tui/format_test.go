package tui

import (
	"testing"
)

func TestFormat(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{durText(0), "0 ms"}, {durText(950), "950 ns"}, {durText(12_340), "12.3 us"}, {durText(999_400), "999 us"},
		{durText(999_600), "1.00 ms"}, {durText(41_230_000), "41.2 ms"}, {durText(1_500_000_000), "1.50 s"},
		{durText(180e9), "3.00 min"}, {durText(-2e6), "-2.00 ms"},
		{pctText(0.613), "61.3%"}, {pctText(1), "100%"}, {pctText(0), "0.0%"},
		{deltaText(1.341), "+34.1%"}, {deltaText(0.9), "-10.0%"}, {deltaText(1), "0.0%"}, {deltaText(12), "x12.0"}, {deltaText(0), "-"},
		{rateText(1553.4), "1,553"}, {rateText(12.13), "12.1"},
		{string(appendMemory(nil, 364<<20/10)), "36.4 MiB"}, {string(appendMemory(nil, 1e9)), "953.7 MiB"}, {string(appendMemory(nil, 80<<30)), "81920 MiB"},
		{string(appendSize(nil, 412e6)), "412 MB"}, {string(appendSize(nil, 12)), "12 B"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
