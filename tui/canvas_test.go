package tui

import (
	"strings"
	"testing"
)

func render(w, h int, draw func(c *canvas)) string {
	var c canvas
	c.resize(w, h)
	c.clear()
	draw(&c)
	var none [numStyles]string
	return c.frame(&none)
}

func TestCanvasText(t *testing.T) {
	for _, c := range []struct {
		name, text string
		w          int
		want       string
	}{
		{"fits", "abc", 3, "abc  "},
		{"cut", "abcdef", 4, "abc~ "},
		{"wide", "数据集", 5, "数据~"},
		{"wide fits", "数据", 5, "数据 "},
		{"wide does not fit by one", "a数据", 4, "a数~ "},
		{"control characters", "a\x1b[2Jb", 5, "a?[2~"},
		{"combining", "e\u0301x", 5, "ex   "},
		{"invalid", "a\xffb", 5, "a?b  "},
		{"nothing", "abc", 0, "     "},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := render(5, 1, func(cv *canvas) { cv.pen(0, 0, c.w).hint(stNormal, c.text) })
			if got != c.want {
				t.Errorf("%q in %d columns: got %q, want %q", c.text, c.w, got, c.want)
			}
		})
	}
}

// TestCanvasWideHalves: what overwrites half of a wide rune leaves a space for
// the other half, so that the columns to the right stay where they are.
func TestCanvasWideHalves(t *testing.T) {
	for x, want := range []string{"x 据|", " x据|", "数x |", "数 x|"} {
		got := render(5, 1, func(c *canvas) {
			c.pen(0, 0, 5).hint(stNormal, "数据|")
			c.set(x, 0, 'x', stNormal)
		})
		if got != want {
			t.Errorf("x at %d: got %q, want %q", x, got, want)
		}
		if textWidth(got) != 5 {
			t.Errorf("x at %d: %q is %d columns wide, want 5", x, got, textWidth(got))
		}
	}
}

// TestCanvasClips: nothing drawn outside changes the canvas or panics.
func TestCanvasClips(t *testing.T) {
	got := render(3, 2, func(c *canvas) {
		c.set(-1, 0, 'x', stNormal)
		c.set(3, 0, 'x', stNormal)
		c.set(0, 2, 'x', stNormal)
		c.fill(rect{-5, -5, 3, 3}, 'x', stNormal)
		c.pen(1, 0, 10).hint(stNormal, "数据")
		c.pen(-1, 1, 3).hint(stNormal, "数")
	})
	if want := "  ~\n   "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCanvasSGR(t *testing.T) {
	var c canvas
	c.resize(4, 2)
	c.clear()
	c.set(1, 0, 'a', stBad)
	c.set(2, 0, 'b', stBad)
	c.set(3, 1, 'c', stGood)
	th := themes()[0]
	want := " \x1b[0;31mab\x1b[m \n   \x1b[0;32mc\x1b[m"
	if got := c.frame(&th.sgr); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestThemes: the mono theme uses no colour parameter, and the others have a
// sequence of their own for each threshold.
func TestThemes(t *testing.T) {
	for _, th := range themes() {
		for st, seq := range th.sgr {
			for _, p := range strings.Split(strings.TrimSuffix(strings.TrimPrefix(seq, "\x1b["), "m"), ";") {
				if th.mono && p != "" && p != "0" && p != "1" && p != "7" {
					t.Errorf("mono style %d uses %q", st, seq)
				}
			}
		}
		if !th.mono && (th.sgr[stGood] == th.sgr[stWarn] || th.sgr[stWarn] == th.sgr[stBad]) {
			t.Errorf("theme %s does not tell good, warn and bad apart", th.name)
		}
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{durText(0), "0 ms"}, {durText(950), "950 ns"}, {durText(12_340), "12.3 us"}, {durText(999_400), "999 us"},
		{durText(999_600), "1.00 ms"}, {durText(41_230_000), "41.2 ms"}, {durText(1_500_000_000), "1.50 s"},
		{durText(180e9), "3.00 min"}, {durText(-2e6), "-2.00 ms"},
		{countText(4180), "4,180"}, {countText(-1234567), "-1,234,567"}, {countText(12), "12"},
		{pctText(0.613), "61.3%"}, {pctText(1), "100%"}, {pctText(0), "0.0%"},
		{deltaText(1.341), "+34.1%"}, {deltaText(0.9), "-10.0%"}, {deltaText(1), "0.0%"}, {deltaText(12), "x12.0"}, {deltaText(0), "-"},
		{clockText(3_723e9), "01:02:03"}, {rateText(1553.4), "1,553"}, {rateText(12.13), "12.1"},
		{string(appendMemory(nil, 364<<20/10)), "36.4 MiB"}, {string(appendMemory(nil, 1e9)), "953.7 MiB"}, {string(appendMemory(nil, 80<<30)), "81920 MiB"},
		{string(appendSize(nil, 412e6)), "412 MB"}, {string(appendSize(nil, 12)), "12 B"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		s    string
		w    int
		want string
	}{
		{"the quick brown fox", 10, "the quick|brown fox"},
		{"incomprehensibilities", 8, "incompre|hensibil|ities"},
		{"数据集 a", 4, "数据|集 a"},
		{"", 5, ""},
		{"a b", 0, ""},
	} {
		if got := strings.Join(wrap(c.s, c.w), "|"); got != c.want {
			t.Errorf("wrap(%q, %d) = %q, want %q", c.s, c.w, got, c.want)
		}
	}
}
