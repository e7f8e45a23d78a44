package canvas

import (
	"os"
	"strconv"
	"strings"
)

// Style is what a cell means. The theme decides how that looks.
type Style uint8

const (
	Normal Style = iota
	Dim
	Bold
	Title
	TitleFocus
	Border
	BorderFocus
	Key
	Good
	Warn
	Bad
	GoodBold
	WarnBold
	BadBold
	Graph
	Selected
	Staged
	Confirmed
	Cursor
	Badge    // a label that must be seen: EMULATED
	BadgeBad // a label of something bad: INJECTED
	Running  // the run's state in the top line
	Paused
	Name   // the program's
	hueOne // from here on, two styles for each hue: text, and a solid block
)

// Hue is a colour that means the same all over the screen.
type Hue uint8

const (
	Compute Hue = iota
	Transfer
	Idle
	Host
	Series // the first of the colours of a series, which are numbered
)

// SeriesLen is the number of colours that a series can have.
const SeriesLen = 23

const (
	numHues   = int(Series) + SeriesLen
	numStyles = int(hueOne) + 2*numHues
)

// Text and Solid are the two styles of a hue.
func (h Hue) Text() Style  { return hueOne + Style(2*h) }
func (h Hue) Solid() Style { return hueOne + Style(2*h) + 1 }

// Solid reports whether st is a hue's solid block.
func (st Style) Solid() bool { return st > hueOne && (st-hueOne)%2 == 1 }

// palette holds the hues of the themes. ansi is the number of one of the 16 ANSI colours, so that
// the user's own palette applies; its blue cannot be read on black. xterm, for colour-blind users, is the xterm colour nearest to
// one of Okabe and Ito's palette. light is the xterm colour on a light background. Blocks of dark colours have
// light text on them, as all of light's are.
var palette = [numHues]struct {
	ansi, xterm, light int
	dark               bool
}{
	Compute:  {ansi: 2, xterm: 36, light: 29},
	Transfer: {ansi: 6, xterm: 80, light: 31},
	Idle:     {ansi: 8, xterm: 242, light: 243, dark: true},
	Host:     {ansi: 7, xterm: 250, light: 238},

	Series:      {ansi: 12, xterm: 33, light: 26, dark: true},
	Series + 1:  {ansi: 3, xterm: 214, light: 130},
	Series + 2:  {ansi: 5, xterm: 175, light: 163},
	Series + 3:  {ansi: 6, xterm: 117, light: 31},
	Series + 4:  {ansi: 8, xterm: 245, light: 241},
	Series + 5:  {ansi: 1, xterm: 166, light: 124},
	Series + 6:  {ansi: 9, xterm: 203, light: 160},
	Series + 7:  {ansi: 7, xterm: 252, light: 238},
	Series + 8:  {ansi: 14, xterm: 80, light: 30},
	Series + 9:  {ansi: 13, xterm: 141, light: 92},
	Series + 10: {ansi: 11, xterm: 227, light: 94},
	Series + 11: {ansi: 12, xterm: 69, light: 62},
	Series + 12: {ansi: 7, xterm: 250, light: 242},
	Series + 13: {ansi: 8, xterm: 242, light: 240, dark: true},
	Series + 14: {ansi: 15, xterm: 229, light: 94},
	Series + 15: {ansi: 10, xterm: 72, light: 28},
	Series + 16: {ansi: 12, xterm: 111, light: 25},
	Series + 17: {ansi: 9, xterm: 168, light: 125},
	Series + 18: {ansi: 13, xterm: 183, light: 97},
	Series + 19: {ansi: 3, xterm: 130, light: 88},
	Series + 20: {ansi: 5, xterm: 133, light: 90, dark: true},
	Series + 21: {ansi: 2, xterm: 108, light: 65},
	Series + 22: {ansi: 14, xterm: 152, light: 23},
}

// Xterm returns the number of the hue's colour in the colour-blind theme.
func (h Hue) Xterm() int { return palette[h].xterm }

// Theme is a table of SGR sequences, each with a leading reset. The zero theme has no sequences.
type Theme struct {
	Name string
	Mono bool // only bold and reverse, so glyphs must say what colours would
	sgr  [numStyles]string
}

// look holds the SGR parameters from which a theme's table is made.
type look struct {
	name                     string
	mono                     bool
	good, warn, bad          string
	dim, accent, border, key string
	hues                     [numHues]string // text
	blocks                   [numHues]string // solid blocks
}

func ansi(n int) (text, block string) {
	ink := "30"
	if n == 8 {
		ink = "97"
	}
	if n < 8 {
		return strconv.Itoa(30 + n), ink + ";" + strconv.Itoa(40+n)
	}
	return strconv.Itoa(82 + n), ink + ";" + strconv.Itoa(92+n)
}

func xterm(n int, dark bool) (text, block string) {
	ink := "38;5;16"
	if dark {
		ink = "38;5;231"
	}
	s := strconv.Itoa(n)
	return "38;5;" + s, ink + ";48;5;" + s
}

// Themes returns all themes, the default first and the one without colour last.
func Themes() []Theme {
	def := look{name: "default", good: "32", warn: "33", bad: "31", dim: "90", accent: "36", border: "90", key: "36"}
	safe := look{name: "colorblind", good: "38;5;33", warn: "38;5;220", bad: "38;5;202", dim: "38;5;245", accent: "38;5;80", border: "38;5;242", key: "38;5;80"}
	light := look{name: "light", good: "38;5;28", warn: "38;5;130", bad: "38;5;160", dim: "38;5;242", accent: "38;5;25", border: "38;5;245", key: "38;5;25"}
	mono := look{name: "mono", mono: true}
	for h, p := range palette {
		def.hues[h], def.blocks[h] = ansi(p.ansi)
		safe.hues[h], safe.blocks[h] = xterm(p.xterm, p.dark)
		light.hues[h], light.blocks[h] = xterm(p.light, true)
	}
	return []Theme{def.theme(), light.theme(), safe.theme(), mono.theme()}
}

func (l look) theme() Theme {
	t := Theme{Name: l.name, Mono: l.mono}
	set := func(st Style, params ...string) {
		seq := "\x1b[0"
		for _, p := range params {
			if p != "" {
				seq += ";" + p
			}
		}
		if seq == "\x1b[0" {
			seq = "\x1b["
		}
		t.sgr[st] = seq + "m"
	}
	reverse := func(params string) string { // a badge: a coloured block, or reverse alone
		if l.mono {
			return "7"
		}
		return "7;" + params
	}
	set(Normal)
	set(Dim, l.dim)
	set(Bold, "1")
	set(Title, "1")
	set(TitleFocus, "1", l.accent)
	set(Border, l.border)
	set(BorderFocus, l.accent)
	if l.mono {
		set(BorderFocus, "1")
		set(TitleFocus, "1", "7")
	}
	set(Key, "1", l.key)
	set(Good, l.good)
	set(Warn, l.warn)
	set(Bad, l.bad)
	set(GoodBold, "1", l.good)
	set(WarnBold, "1", l.warn)
	set(BadBold, "1", l.bad)
	set(Graph, l.accent)
	set(Selected, "7")
	set(Staged, "1", l.warn)
	set(Confirmed, "1", l.good)
	set(Cursor, "7", "1")
	set(Badge, reverse(l.warn))
	set(BadgeBad, "1", reverse(l.bad))
	set(Running, "1", l.good)
	set(Paused, "1", l.warn)
	set(Name, "1", l.accent)
	for h := range Hue(numHues) {
		set(h.Text(), l.hues[h])
		if l.mono {
			set(h.Solid(), "7")
		} else {
			set(h.Solid(), l.blocks[h])
		}
	}
	if l.mono {
		// Idle cells and compute bars have their own glyphs, so they need no reverse.
		set(Idle.Text())
		set(Compute.Solid(), "1")
	}
	return t
}

// Glyphs holds the characters that differ between Unicode and ASCII terminals.
type Glyphs struct {
	ASCII bool

	TopLeft, TopRight, BottomLeft, BottomRight, Hor, Vert rune
	Levels                                                [9]rune // heights 0 to 8 eighths
	Bar, Half, Rest                                       rune    // a bar's full, half and unfilled column
	Idle, Block                                           rune
	Play, Pause, End                                      rune
	Arrow, Mark, Tick                                     rune
	Left, Right, Up, Down                                 rune
	UpDown, LeftRight                                     string // the arrow keys
}

var Unicode = Glyphs{
	TopLeft: '╭', TopRight: '╮', BottomLeft: '╰', BottomRight: '╯', Hor: '─', Vert: '│',
	Levels: [9]rune{' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'},
	Bar:    '━', Half: '╸', Rest: '─', Idle: '·', Block: '█', Play: '►', Pause: '‖', End: '■',
	Arrow: '→', Mark: '▸', Tick: '✓', Left: '‹', Right: '›', Up: '▲', Down: '▼',
	UpDown: "↑↓", LeftRight: "←→",
}

var ASCII = Glyphs{
	ASCII:   true,
	TopLeft: '+', TopRight: '+', BottomLeft: '+', BottomRight: '+', Hor: '-', Vert: '|',
	Levels: [9]rune{' ', '_', '_', '-', '-', '=', '=', '#', '#'},
	Bar:    '#', Half: '#', Rest: '.', Idle: '.', Block: '#', Play: '>', Pause: '=', End: '#',
	Arrow: '>', Mark: '>', Tick: 'v', Left: '<', Right: '>', Up: '^', Down: 'v',
	UpDown: "^v", LeftRight: "<>",
}

// Light reports whether the environment says that the terminal's background is light, and whether it says anything.
// COLORFGBG is "foreground;background", numbers of ANSI colours.
func Light() (light, told bool) {
	v := os.Getenv("COLORFGBG")
	n := v[strings.LastIndexByte(v, ';')+1:]
	return n == "7" || n == "15", v != ""
}

// Plain reports whether the environment asks for no colour: NO_COLOR is set to anything
// (no-color.org), or the terminal is called dumb.
func Plain() bool {
	return os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb"
}
