package canvas

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func render(w, h int, draw func(c *Canvas)) string {
	c := Canvas{Theme: &Theme{}}
	c.Resize(w, h)
	c.Clear()
	draw(&c)
	return c.Frame()
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
			got := render(5, 1, func(cv *Canvas) { cv.Text(0, 0, c.w, Normal, c.text) })
			if got != c.want {
				t.Errorf("%q in %d columns: got %q, want %q", c.text, c.w, got, c.want)
			}
		})
	}
}

// TestCanvasWideHalves: where half of a wide rune is overwritten, the other half becomes a space, so
// that the columns to the right stay where they are.
func TestCanvasWideHalves(t *testing.T) {
	for x, want := range []string{"x 据|", " x据|", "数x |", "数 x|"} {
		got := render(5, 1, func(c *Canvas) {
			c.Text(0, 0, 5, Normal, "数据|")
			c.Set(x, 0, 'x', Normal)
		})
		if got != want {
			t.Errorf("x at %d: got %q, want %q", x, got, want)
		}
		if Width(got) != 5 {
			t.Errorf("x at %d: %q is %d columns wide, want 5", x, got, Width(got))
		}
	}
}

// TestCanvasClips: nothing drawn outside changes the canvas or panics.
func TestCanvasClips(t *testing.T) {
	got := render(3, 2, func(c *Canvas) {
		c.Set(-1, 0, 'x', Normal)
		c.Set(3, 0, 'x', Normal)
		c.Set(0, 2, 'x', Normal)
		c.Fill(Rect(-5, -5, 3, 3), 'x', Normal)
		c.Text(1, 0, 10, Normal, "数据")
		c.Text(-1, 1, 3, Normal, "数")
	})
	if want := "  ~\n   "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCanvasSGR(t *testing.T) {
	c := Canvas{Theme: &Themes()[0]}
	c.Resize(4, 2)
	c.Clear()
	c.Set(1, 0, 'a', Bad)
	c.Set(2, 0, 'b', Bad)
	c.Set(3, 1, 'c', Good)
	want := " \x1b[0;31mab\x1b[m \n   \x1b[0;32mc\x1b[m"
	if got := c.Frame(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestThemes: the mono theme uses no colour parameter. The others have a sequence of
// their own for each threshold.
func TestThemes(t *testing.T) {
	for _, th := range Themes() {
		for st, seq := range th.sgr {
			for _, p := range strings.Split(strings.TrimSuffix(strings.TrimPrefix(seq, "\x1b["), "m"), ";") {
				if th.Mono && p != "" && p != "0" && p != "1" && p != "7" {
					t.Errorf("mono style %d uses %q", st, seq)
				}
			}
		}
		if !th.Mono && (th.sgr[Good] == th.sgr[Warn] || th.sgr[Warn] == th.sgr[Bad]) {
			t.Errorf("theme %s does not tell good, warn and bad apart", th.Name)
		}
	}
}

// TestContrast: every colour of text can be read, in the light theme on white and in the one for colour-blind users on black:
// WCAG 2 asks for a contrast of 3 at the least.
func TestContrast(t *testing.T) {
	linear := func(v int) float64 {
		if v > 0 {
			v = 55 + 40*v
		}
		return math.Pow((float64(v)/255+0.055)/1.055, 2.4)
	}
	for name, ground := range map[string]float64{"light": 1, "colorblind": 0} {
		th := Themes()[slices.IndexFunc(Themes(), func(th Theme) bool { return th.Name == name })]
		for st, seq := range th.sgr {
			i := strings.Index(seq, "38;5;")
			if i < 0 || strings.Contains(seq, "48;5;") {
				continue
			}
			n, _ := strconv.Atoi(strings.TrimSuffix(seq[i+len("38;5;"):], "m"))
			luminance := math.Pow((float64(8+10*(n-232))/255+0.055)/1.055, 2.4)
			if n < 232 {
				n -= 16
				luminance = 0.2126*linear(n/36) + 0.7152*linear(n/6%6) + 0.0722*linear(n%6)
			}
			if contrast := (max(ground, luminance) + 0.05) / (min(ground, luminance) + 0.05); contrast < 3 {
				t.Errorf("theme %s, style %d: %q has a contrast of %.1f", th.Name, st, seq, contrast)
			}
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
		if got := strings.Join(Wrap(c.s, c.w), "|"); got != c.want {
			t.Errorf("Wrap(%q, %d) = %q, want %q", c.s, c.w, got, c.want)
		}
	}
}
