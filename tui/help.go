package tui

import (
	"strings"

	"dev.gpustall/engine/trace"
)

// helpKeys is the help screen's first part: keys and what they do.
var helpKeys = [][2]string{
	{"tab 1-6", "focus: timeline, knobs, verdict, stalls, experiments, device ops"},
	{"f", "expand the focused panel, and back"},
	{"up down / j k", "knobs, experiments: select; timeline, device ops: scroll"},
	{"b s", "device ops: group the rows; sort by total, mean or name"},
	{"left right / h l", "knobs: stage a step; timeline: move the cursor"},
	{"shift, ctrl", "with left or right (or H L): bigger steps"},
	{"enter", "apply what is staged; with nothing staged, as i"},
	{"i", "type the selected knob's value, or flip its switch"},
	{"esc", "drop what is staged, close what is open"},
	{"u", "undo the last applied change"},
	{"a", "make this configuration (or the selected row) baseline A"},
	{"space", "freeze the screen, the run goes on; replay: play or stop"},
	{"[ ]", "rewind and forward; { } by a whole window; g G start, end"},
	{"z Z", "timeline: zoom in, out"},
	{"/", "timeline: show only lanes whose name contains a text"},
	{"p", "pause the engine, and go on"},
	{"n", "notes: the session's log"},
	{"e", "export the report"},
	{"t", "theme: default, colorblind, mono"},
	{"+ -", "refresh rate"},
	{"ctrl+z", "suspend"},
	{"q ctrl+c", "quit (q asks once while training runs; ctrl+c does not)"},
}

// drawOverlay draws help or notes over the body.
func (m *Model) drawOverlay(b rect) {
	r := b
	if m.overlay == overlayHelp {
		r.w = min(b.w, 84)
		r.h = min(b.h, helpLines(r.w-2)+2)
	} else {
		r.w = min(b.w, 110)
	}
	r.x = b.x + (b.w-r.w)/2
	r.y = b.y + (b.h-r.h)/2
	m.c.fill(r, ' ', stNormal)
	title := "Help"
	if m.overlay == overlayNotes {
		title = "Notes"
	}
	p := m.box(r, title, 0)
	p.text(stDim, "esc closes, up and down scroll ")
	in := r.inner()
	if m.overlay == overlayNotes {
		m.drawNotes(in, m.scroll)
		return
	}
	m.scroll = max(0, min(m.scroll, helpLines(in.w)-in.h))
	m.drawHelp(in)
}

// helpText is the help's first part, wrapped: a key, or nothing, and words.
func helpText(w int) [][2]string {
	kw := helpKeyWidth(w)
	var out [][2]string
	for _, k := range helpKeys {
		for i, line := range wrap(k[1], w-2-kw) {
			key := k[0]
			if i > 0 {
				key = ""
			}
			out = append(out, [2]string{key, line})
		}
	}
	return out
}

// helpKeyWidth is the column of the words.
func helpKeyWidth(w int) int {
	if w < 44 {
		return 10
	}
	return 18
}

// helpWords are told after the letters.
var helpWords = []string{
	"host lane: N waits for a batch, L enqueues, Y synchronises, X applies a knob",
	"ready q, H2D, compute: the height is how full or busy the column is",
	"t on the time axis: a step begins whose ops are timed, which makes it longer",
	"util: ok from 85%, ! from 60%, !! below; stall: ok under 5%, ! to 20%, !! over",
	"A knob shows the value that the trace confirms: staged, requested, confirmed.",
}

// helpStyle gives the marks of a level its colour, and the host's letters weight.
func helpStyle(word string, i int) style {
	switch w := strings.TrimSpace(word); {
	case w == "ok":
		return stGood
	case w == "!":
		return stWarn
	case w == "!!":
		return stBad
	case len(w) == 1 && i > 0 && w >= "A" && w <= "Z":
		return stBold
	}
	return stNormal
}

// helpLines is how many lines the help has at a width.
func helpLines(w int) int {
	n := len(helpText(w)) + 2 + 4
	for _, s := range helpWords {
		n += len(wrap(s, w-2))
	}
	return n
}

func (m *Model) drawHelp(r rect) {
	y := r.y - m.scroll
	line := func() pen {
		p := pen{c: &m.c, y: y, x: r.x + 1, limit: r.x + r.w - 1}
		if y < r.y || y >= r.y+r.h {
			p.limit = 0
		}
		y++
		return p
	}
	kw := helpKeyWidth(r.w)
	for _, k := range helpText(r.w) {
		p := line()
		if p.limit == 0 {
			continue
		}
		head := p
		head.limit = p.x + kw - 1
		head.text(stKey, k[0])
		p.to(p.x + kw)
		p.text(stNormal, k[1])
	}
	line()
	p := line()
	p.text(stBold, "The letters ").text(stNormal, "of workers and STALL; small: under half a column.")
	each := min(17, max(13, (r.w-2)/4))
	for row := range 4 {
		p = line()
		if p.limit == 0 {
			continue
		}
		for i := row; i < trace.NumCauses-1; i += 4 {
			p.rune(hue(i).solid(), causeLetter[i]).space(1).text(stNormal, trace.Cause(i).String())
			p.to(r.x + 1 + (i/4+1)*each)
		}
	}
	for _, s := range helpWords {
		for _, l := range wrap(s, r.w-2) {
			p = line()
			for i, word := range strings.SplitAfter(l, " ") {
				p.text(helpStyle(word, i), word)
			}
		}
	}
}

// drawNotes draws the session's log, newest first, back lines further up.
func (m *Model) drawNotes(r rect, back int) {
	notes := m.pic.snap.Notes
	if len(notes) == 0 {
		m.c.pen(r.x+1, r.y, r.w-2).hint(stDim, "no notes")
		return
	}
	y := r.y
	for i := len(notes) - 1 - back; i >= 0 && y < r.y+r.h; i-- {
		n := &notes[i]
		p := m.c.pen(r.x+1, y, r.w-2)
		var b [16]byte
		p.bytes(stDim, appendClock(b[:0], n.T)).space(1)
		switch n.Level {
		case "error":
			p.text(stBad, "!! ")
		case "warn":
			p.text(stWarn, "! ")
		}
		if textWidth(n.Text) <= p.left() {
			p.text(stNormal, n.Text)
			y++
			continue
		}
		for _, line := range wrap(n.Text, p.left()) {
			if y < r.y+r.h {
				m.c.pen(p.x, y, p.left()).hint(stNormal, line)
			}
			y++
		}
	}
}
