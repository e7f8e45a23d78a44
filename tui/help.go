package tui

import (
	"fmt"
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// overlay covers the body of the screen.
type overlay uint8

const (
	overlayNone overlay = iota
	overlayHelp
	overlayNotes
)

func (m *Model) open(o overlay) { m.overlay, m.scroll = o, 0 }

func (m *Model) overlayKey(name string) tea.Cmd {
	switch name {
	case "up", "k":
		m.scroll = max(0, m.scroll-1)
	case "down", "j":
		m.scroll = min(m.scroll+1, max(0, m.overlayLines()-1))
	case "pgdown", "space":
		m.scroll = min(m.scroll+10, max(0, m.overlayLines()-1))
	case "pgup":
		m.scroll = max(0, m.scroll-10)
	case "q", "esc", "?", "n", "enter":
		m.overlay = overlayNone
	}
	return nil
}

func (m *Model) overlayLines() int {
	if m.overlay == overlayHelp {
		return m.helpLines(min(m.w, 84) - 2)
	}
	return logLines(&m.pic.snap)
}

// drawOverlay draws help or notes over the body.
func (m *Model) drawOverlay(b canvas.Rectangle) {
	r, title := b, "Help"
	if m.overlay == overlayHelp {
		r.W = min(b.W, 84)
		r.H = min(b.H, m.helpLines(r.W-2)+2)
	} else {
		r.W, title = min(b.W, 110), "Notes"
	}
	r.X = b.X + (b.W-r.W)/2
	r.Y = b.Y + (b.H-r.H)/2
	m.c.Fill(r, ' ', canvas.Normal)
	p := m.c.Box(r, "", title, false)
	p.Text(canvas.Dim, "esc closes, up and down scroll ")
	in := r.Inner()
	if m.overlay == overlayNotes {
		drawNotes(&m.c, in, &m.pic.snap, m.scroll)
		return
	}
	m.scroll = max(0, min(m.scroll, m.helpLines(in.W)-in.H))
	m.drawHelp(in)
}

// helpRow is a line of the help's first part: a key, or nothing, and words.
type helpRow struct{ key, words string }

// helpRows are what the keys do, wrapped to w columns: those of the panels, one key
// for all that have it, then those that mean the same everywhere.
func (m *Model) helpRows(w int) []helpRow {
	var rows []helpRow
	add := func(key, words string) {
		for _, line := range canvas.Wrap(words, w-2-helpKeyWidth(w)) {
			rows = append(rows, helpRow{key, line})
			key = ""
		}
	}
	told := map[string]bool{}
	for i := range m.panels {
		for _, b := range m.panels[i].keys {
			if m.helps(b) && !told[b.keys] {
				told[b.keys] = true
				add(b.keys, m.panelHelp(b.keys))
			}
		}
	}
	for _, b := range m.globals {
		if m.helps(b) {
			add(b.keys, b.help)
		}
	}
	return rows
}

// helps reports whether the help has b.
func (m *Model) helps(b binding) bool { return b.help != "" && !(b.live && m.o.Replay) }

// panelHelp says what keys do in each panel that has them: "knobs: change".
func (m *Model) panelHelp(keys string) string {
	var does, names []string // what, and in which panels
	for i := range m.panels {
		p := &m.panels[i]
		for _, b := range p.keys {
			if b.keys != keys || !m.helps(b) {
				continue
			}
			k := slices.Index(does, b.help)
			if k < 0 {
				does, names = append(does, b.help), append(names, p.name)
				continue
			}
			names[k] += ", " + p.name
		}
	}
	for i := range does {
		does[i] = names[i] + ": " + does[i]
	}
	return strings.Join(does, "; ")
}

// helpKeyWidth is the columns of the keys.
func helpKeyWidth(w int) int {
	if w < 44 {
		return 10
	}
	return 18
}

// helpWords are told after the letters.
var helpWords = []string{
	laneLetters("host", func(k trace.Kind) bool { return k >= trace.KindNext && !k.IsPart() }),
	laneLetters("script", trace.Kind.IsPart) + " (a PyTorch training's)",
	"ready q, H2D, compute: the height is how full or busy the column is",
	"t on the time axis: a step begins whose ops are timed, which makes it longer",
	levelWords(),
	"A knob shows the value that the trace confirms: staged, requested, confirmed.",
	"Beside it: what is predicted of the value before the colon, from now on, and what the knob's last change did, measured.",
}

// laneLetters are those of a lane that shows such kinds.
func laneLetters(lane string, shows func(trace.Kind) bool) string {
	var words []string
	for k := range trace.NumKinds {
		if i := k.Info(); shows(k) && i.Letter >= 'a' && i.Letter <= 'z' {
			words = append(words, strings.ToUpper(string(i.Letter))+" "+i.Doing)
		}
	}
	return lane + " lane: " + strings.Join(words, ", ")
}

// levelWords says what the marks of shares stand for.
func levelWords() string {
	moderate, high := advice.Thresholds()
	return fmt.Sprintf("util, but for waits for a core: ok from %.0f%%, ! from %.0f%%, !! below; stall: ok under %.0f%%, ! to %.0f%%, !! over",
		100*utilGood, 100*utilPoor, 100*moderate, 100*high)
}

// helpStyle gives the marks of a level its colour, and the host's letters weight.
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

// helpLines is how many lines the help has at a width.
func (m *Model) helpLines(w int) int {
	n := len(m.helpRows(w)) + 2 + letterRows
	for _, s := range helpWords {
		n += len(canvas.Wrap(s, w-2))
	}
	return n
}

const letterRows = 5

func (m *Model) drawHelp(r canvas.Rectangle) {
	rows := m.helpRows(r.W)
	keys := canvas.Table[helpRow]{Scroll: m.scroll, Cursor: -1, Pinned: -1, Columns: []canvas.Column[helpRow]{
		{W: helpKeyWidth(r.W) - 1, Cell: func(p *canvas.Pen, h *helpRow) { p.Text(canvas.Key, h.key) }},
		{W: 1, Most: canvas.Stretch, Cell: func(p *canvas.Pen, h *helpRow) { p.Text(canvas.Normal, h.words) }},
	}}
	in := r.Indent()
	in.H = min(r.H, len(rows)-m.scroll)
	keys.Draw(&m.c, in, rows)

	y := r.Y - m.scroll + len(rows)
	line := func() canvas.Pen {
		p := m.c.Pen(r.X+1, y, r.W-2)
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
			p.Rune(causeHue(c).Solid(), c.Info().Letter).Space(1).Text(canvas.Normal, c.String())
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
