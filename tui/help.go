package tui

import (
	"fmt"
	"slices"
	"strings"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
	"dev.gpustall/tui/panel"
)

// help is the text that tells what keys, letters and marks mean.
type help struct {
	panels  []panel.Panel
	globals []panel.Binding
	replay  bool
}

// helpRow is a line of the help's first part: what a key does. Further lines about it have no key.
type helpRow struct{ key, words string }

// firstKeys are the keys that people need first, in the order in which the help has them.
var firstKeys = []string{"q ctrl+c", "tab", "f", "A", "u", "T", "space", "e"}

// rows returns what the keys do, wrapped to w columns: firstKeys, then the keys of the panels, each
// key once for all panels that have it. Then come the other keys that mean the same everywhere.
func (h *help) rows(w int) []helpRow {
	var rows []helpRow
	add := func(key, words string) {
		for _, line := range canvas.Wrap(words, w-2-helpKeyWidth(w)) {
			rows = append(rows, helpRow{key, line})
			key = ""
		}
	}
	globals := slices.Clone(h.globals)
	rank := func(b *panel.Binding) int { // what people need first
		if i := slices.IndexFunc(firstKeys, func(k string) bool { return b.Keys == k || k == "tab" && strings.HasPrefix(b.Keys, "tab ") }); i >= 0 {
			return i
		}
		return len(firstKeys)
	}
	slices.SortStableFunc(globals, func(a, b panel.Binding) int { return rank(&a) - rank(&b) })
	globals = slices.DeleteFunc(globals, func(b panel.Binding) bool { return !h.has(&b) })
	rest := slices.IndexFunc(globals, func(b panel.Binding) bool { return rank(&b) == len(firstKeys) })
	if rest < 0 {
		rest = len(globals)
	}
	for i := range globals[:rest] {
		add(globals[i].Keys, globals[i].Help)
	}
	told := map[string]bool{}
	for _, p := range h.panels {
		keys := p.Describe().Keys
		for i := range keys {
			if b := &keys[i]; h.has(b) && !told[b.Keys] {
				told[b.Keys] = true
				add(b.Keys, h.ofPanels(b.Keys))
			}
		}
	}
	for i := range globals[rest:] {
		add(globals[rest+i].Keys, globals[rest+i].Help)
	}
	return rows
}

// has reports whether the help lists b.
func (h *help) has(b *panel.Binding) bool { return b.Help != "" && !(b.Live && h.replay) }

// ofPanels says what keys do in each panel that has them: "knobs: change".
func (h *help) ofPanels(keys string) string {
	var does, names []string // what they do, and in which panels
	for _, p := range h.panels {
		card := p.Describe()
		for i := range card.Keys {
			b := &card.Keys[i]
			if b.Keys != keys || !h.has(b) {
				continue
			}
			k := slices.Index(does, b.Help)
			if k < 0 {
				does, names = append(does, b.Help), append(names, card.Name)
				continue
			}
			names[k] += ", " + card.Name
		}
	}
	for i := range does {
		does[i] = names[i] + ": " + does[i]
	}
	return strings.Join(does, "; ")
}

// helpKeyWidth returns the width of the keys' column.
func helpKeyWidth(w int) int {
	if w < 44 {
		return 10
	}
	return 18
}

// helpWords come after the letters.
var helpWords = []string{
	laneLetters("host", func(k trace.Kind) bool { return k >= trace.KindNext && !k.IsPart() }),
	laneLetters("script", trace.Kind.IsPart) + " (a PyTorch training's)",
	"ready q, H2D, compute: the height is how full or busy the column is",
	"t on the time axis: a step begins whose ops are timed, which makes it longer",
	levelWords(),
	"A knob shows the value that the trace confirms: staged, requested, confirmed.",
	"Beside it: what is predicted of the value before the colon, from now on, and what the knob's last change did, measured.",
}

// laneLetters returns the letters of a lane, which shows the kinds of spans that shows tells.
func laneLetters(lane string, shows func(trace.Kind) bool) string {
	var words []string
	for k := range trace.NumKinds {
		if i := k.Info(); shows(k) && i.Letter >= 'a' && i.Letter <= 'z' {
			words = append(words, strings.ToUpper(string(i.Letter))+" "+i.Doing)
		}
	}
	return lane + " lane: " + strings.Join(words, ", ")
}

// levelWords returns what the marks of shares stand for.
func levelWords() string {
	moderate, high := advice.Thresholds()
	return fmt.Sprintf("util, and where that is ok, util without waits for a core: ok from %.0f%%, ! from %.0f%%, !! below; stall: ok under %.0f%%, ! to %.0f%%, !! over",
		100*panel.UtilGood, 100*panel.UtilPoor, 100*moderate, 100*high)
}

// helpStyle returns the style of a word in the help: the marks of a level have its colour, and the
// letters of lanes are bold.
func helpStyle(word string, i int) canvas.Style {
	switch w := strings.TrimSpace(word); {
	case w == "ok":
		return canvas.Good
	case w == "!":
		return canvas.Warn
	case w == "!!":
		return canvas.Bad
	case len(w) == 1 && i > 0 && w >= "A" && w <= "Z":
		return canvas.Bold
	}
	return canvas.Normal
}

// height returns how many lines the help has at a width.
func (h *help) height(w int) int {
	n := len(h.rows(w)) + 2 + letterRows
	for _, s := range helpWords {
		n += len(canvas.Wrap(s, w-2))
	}
	return n
}

const letterRows = 6

// draw draws the help from the line scroll on.
func (h *help) draw(c *canvas.Canvas, r canvas.Rectangle, scroll int) {
	rows := h.rows(r.W)
	keys := canvas.Table[helpRow]{Scroll: scroll, Cursor: -1, Pinned: -1, Columns: []canvas.Column[helpRow]{
		{W: helpKeyWidth(r.W) - 1, Cell: func(p *canvas.Pen, r *helpRow) { p.Text(canvas.Key, r.key) }},
		{W: 1, Most: canvas.Stretch, Cell: func(p *canvas.Pen, r *helpRow) { p.Text(canvas.Normal, r.words) }},
	}}
	in := r.Indent()
	in.H = min(r.H, len(rows)-scroll)
	keys.Draw(c, in, rows)

	y := r.Y - scroll + len(rows)
	line := func() canvas.Pen {
		p := c.Pen(r.X+1, y, r.W-2)
		if y < r.Y || y >= r.Y+r.H {
			p.Limit = 0
		}
		y++
		return p
	}
	line()
	p := line()
	p.Text(canvas.Bold, "The letters ").Text(canvas.Normal, "of workers and STALL; small: under half a column.")
	each := min(17, max(15, (r.W-2)/4))
	for row := range letterRows {
		p = line()
		if p.Limit == 0 {
			continue
		}
		for i := row; i < trace.NumCauses-1; i += letterRows {
			c := trace.Cause(i)
			p.Rune(panel.CauseHue(c).Solid(), c.Info().Letter).Space(1).Text(canvas.Normal, c.String())
			p.To(r.X + 1 + (i/letterRows+1)*each)
		}
	}
	for _, s := range helpWords {
		for _, l := range canvas.Wrap(s, r.W-2) {
			p = line()
			for i, word := range strings.SplitAfter(l, " ") {
				p.Text(helpStyle(word, i), word)
			}
		}
	}
}
