package tui

import (
	"os"
	"strconv"

	"dev.gpustall/engine/trace"
)

// style is an index into a theme's table of SGR sequences. What it looks like is
// the theme's business.
type style uint8

const (
	stNormal style = iota
	stDim
	stBold
	stTitle
	stTitleFocus
	stBorder
	stBorderFocus
	stKey
	stGood
	stWarn
	stBad
	stGoodBold
	stWarnBold
	stBadBold
	stGraph
	stSelect
	stStaged
	stConfirmed
	stCursor
	stBadge    // EMULATED, SYNTHETIC, CEILING, REPLAY
	stBadgeBad // INJECTED, errors
	stRun      // the state in the top line
	stPause
	stBar // the top line's name
	stHue // two styles a hue follow: text, and a solid block
)

// hue is a colour of the timeline. Hues 0..NumCauses-1 are the causes of stalls;
// a worker's phase has the hue of the cause it becomes.
type hue uint8

const (
	hueCompute = hue(trace.NumCauses) + iota
	hueTransfer
	hueIdle
	hueHost
	numHues
)

const numStyles = int(stHue) + 2*int(numHues)

// text and solid are the two styles of a hue.
func (h hue) text() style  { return stHue + style(2*h) }
func (h hue) solid() style { return stHue + style(2*h) + 1 }

// causeLetter is the letter of a cause in every lane and legend: the same
// letters as the worker phases that they come from.
var causeLetter = [trace.NumCauses]rune{
	'R', 'D', 'T', 'C', 'P', 'W', 'F', 'S', 'H', 'L', 'Y', 'X', '?', '|',
}

// theme is a table of SGR sequences, each with a leading reset.
type theme struct {
	name string
	mono bool
	sgr  [numStyles]string
}

// look is what a theme decides; the table is made of it.
type look struct {
	name                     string
	mono                     bool
	good, warn, bad          string
	dim, accent, border, key string
	hues                     [numHues]string // foreground parameters
	blocks                   [numHues]string // the solid block's parameters
}

func ansi(n int) (fg, block string) {
	ink := "30"
	if n == 4 || n == 8 {
		ink = "97"
	}
	if n < 8 {
		return strconv.Itoa(30 + n), ink + ";" + strconv.Itoa(40+n)
	}
	return strconv.Itoa(82 + n), ink + ";" + strconv.Itoa(92+n)
}

func xterm(n int, ink string) (fg, block string) {
	s := strconv.Itoa(n)
	return "38;5;" + s, ink + ";48;5;" + s
}

// The hues of the default theme, ANSI colours 0 to 15, so that the user's own
// palette applies: causes, then compute, transfer, idle, host.
var ansiHues = [numHues]int{4, 3, 5, 6, 8, 1, 9, 7, 14, 13, 11, 12, 7, 8, 2, 6, 8, 7}

// The colour-blind theme: Okabe and Ito's palette in the nearest xterm colours.
var safeHues = [numHues]int{33, 214, 175, 117, 245, 166, 203, 252, 80, 141, 227, 69, 250, 240, 36, 80, 240, 250}

func themes() []theme {
	def := look{name: "default", good: "32", warn: "33", bad: "31", dim: "90", accent: "36", border: "90", key: "36"}
	safe := look{name: "colorblind", good: "38;5;33", warn: "38;5;220", bad: "38;5;202", dim: "38;5;245", accent: "38;5;80", border: "38;5;240", key: "38;5;80"}
	mono := look{name: "mono", mono: true}
	for h := range numHues {
		def.hues[h], def.blocks[h] = ansi(ansiHues[h])
		ink := "38;5;16"
		if h == hue(trace.CauseRead) || h == hue(trace.CausePaused) || h == hueIdle {
			ink = "38;5;231"
		}
		safe.hues[h], safe.blocks[h] = xterm(safeHues[h], ink)
	}
	return []theme{def.table(), safe.table(), mono.table()}
}

func (l look) table() theme {
	t := theme{name: l.name, mono: l.mono}
	set := func(st style, params ...string) {
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
	rev := func(params string) string { // a badge: coloured block, or reverse alone
		if l.mono {
			return "7"
		}
		return "7;" + params
	}
	set(stNormal)
	set(stDim, l.dim)
	set(stBold, "1")
	set(stTitle, "1")
	set(stTitleFocus, "1", l.accent)
	set(stBorder, l.border)
	set(stBorderFocus, l.accent)
	if l.mono {
		set(stBorderFocus, "1")
		set(stTitleFocus, "1", "7")
	}
	set(stKey, "1", l.key)
	set(stGood, l.good)
	set(stWarn, l.warn)
	set(stBad, l.bad)
	set(stGoodBold, "1", l.good)
	set(stWarnBold, "1", l.warn)
	set(stBadBold, "1", l.bad)
	set(stGraph, l.accent)
	set(stSelect, "7")
	set(stStaged, "1", l.warn)
	set(stConfirmed, "1", l.good)
	set(stCursor, "7", "1")
	set(stBadge, rev(l.warn))
	set(stBadgeBad, "1", rev(l.bad))
	set(stRun, "1", l.good)
	set(stPause, "1", l.warn)
	set(stBar, "1", l.accent)
	for h := range numHues {
		set(h.text(), l.hues[h])
		if l.mono {
			set(h.solid(), "7")
		} else {
			set(h.solid(), l.blocks[h])
		}
	}
	if l.mono {
		// Idle cells and compute bars carry their own glyphs.
		set(hueIdle.text())
		set(hueCompute.solid(), "1")
	}
	return t
}

// charset is the glyphs that differ between Unicode and ASCII terminals.
type charset struct {
	ascii                   bool
	tl, tr, bl, br, hor, vr rune
	levels                  [9]rune // heights 0 to 8 eighths
	bar, half, rest         rune    // a bar's full, half and unfilled column
	idle                    rune
	play, pause, end        rune
	arrow, mark, tick       rune
	left, right             rune
	up, down, dot           rune
	pm                      string
	times                   string
}

var unicodeSet = charset{
	tl: '╭', tr: '╮', bl: '╰', br: '╯', hor: '─', vr: '│',
	levels: [9]rune{' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'},
	bar:    '━', half: '╸', rest: '─', idle: '·', play: '►', pause: '‖', end: '■',
	arrow: '→', mark: '▸', tick: '✓', left: '‹', right: '›', up: '▲', down: '▼', dot: '·',
	pm: "±", times: "×",
}

var asciiSet = charset{
	ascii: true,
	tl:    '+', tr: '+', bl: '+', br: '+', hor: '-', vr: '|',
	levels: [9]rune{' ', '_', '_', '-', '-', '=', '=', '#', '#'},
	bar:    '#', half: '#', rest: '.', idle: '.', play: '>', pause: '=', end: '#',
	arrow: '>', mark: '>', tick: 'v', left: '<', right: '>', up: '^', down: 'v', dot: '-',
	pm: "+-", times: "x",
}

// Plain reports whether the environment asks for no colour: NO_COLOR set to
// anything (no-color.org), or a terminal called dumb.
func Plain() bool {
	return os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb"
}
