package tui

import (
	"strings"

	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
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
func (m *Model) drawOverlay(b canvas.Rectangle) {
	r := b
	if m.overlay == overlayHelp {
		r.W = min(b.W, 84)
		r.H = min(b.H, helpLines(r.W-2)+2)
	} else {
		r.W = min(b.W, 110)
	}
	r.X = b.X + (b.W-r.W)/2
	r.Y = b.Y + (b.H-r.H)/2
	m.c.Fill(r, ' ', canvas.Normal)
	title := "Help"
	if m.overlay == overlayNotes {
		title = "Notes"
	}
	p := m.box(r, title, 0)
	p.Text(canvas.Dim, "esc closes, up and down scroll ")
	in := r.Inner()
	if m.overlay == overlayNotes {
		m.drawNotes(in, m.scroll)
		return
	}
	m.scroll = max(0, min(m.scroll, helpLines(in.W)-in.H))
	m.drawHelp(in)
}

// helpText is the help's first part, wrapped: a key, or nothing, and words.
func helpText(w int) [][2]string {
	kw := helpKeyWidth(w)
	var out [][2]string
	for _, k := range helpKeys {
		for i, line := range canvas.Wrap(k[1], w-2-kw) {
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
func helpLines(w int) int {
	n := len(helpText(w)) + 2 + 4
	for _, s := range helpWords {
		n += len(canvas.Wrap(s, w-2))
	}
	return n
}

func (m *Model) drawHelp(r canvas.Rectangle) {
	y := r.Y - m.scroll
	line := func() canvas.Pen {
		p := m.c.Pen(r.X+1, y, r.X+r.W-1)
		if y < r.Y || y >= r.Y+r.H {
			p.Limit = 0
		}
		y++
		return p
	}
	kw := helpKeyWidth(r.W)
	for _, k := range helpText(r.W) {
		p := line()
		if p.Limit == 0 {
			continue
		}
		head := p
		head.Limit = p.X + kw - 1
		head.Text(canvas.Key, k[0])
		p.To(p.X + kw)
		p.Text(canvas.Normal, k[1])
	}
	line()
	p := line()
	p.Text(canvas.Bold, "The letters ").Text(canvas.Normal, "of workers and STALL; small: under half a column.")
	each := min(17, max(13, (r.W-2)/4))
	for row := range 4 {
		p = line()
		if p.Limit == 0 {
			continue
		}
		for i := row; i < trace.NumCauses-1; i += 4 {
			c := trace.Cause(i)
			p.Rune(causeHue(c).Solid(), c.Info().Letter).Space(1).Text(canvas.Normal, c.String())
			p.To(r.X + 1 + (i/4+1)*each)
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

// drawNotes draws the session's log, newest first, back lines further up.
func (m *Model) drawNotes(r canvas.Rectangle, back int) {
	notes := m.pic.snap.Notes
	if len(notes) == 0 {
		m.c.Text(r.X+1, r.Y, r.W-2, canvas.Dim, "no notes")
		return
	}
	y := r.Y
	for i := len(notes) - 1 - back; i >= 0 && y < r.Y+r.H; i-- {
		n := &notes[i]
		p := m.c.Pen(r.X+1, y, r.W-2)
		var b [16]byte
		p.Bytes(canvas.Dim, figures.AppendClock(b[:0], n.T)).Space(1)
		switch n.Level {
		case "error":
			p.Text(canvas.Bad, "!! ")
		case "warn":
			p.Text(canvas.Warn, "! ")
		}
		if canvas.Width(n.Text) <= p.Left() {
			p.Text(canvas.Normal, n.Text)
			y++
			continue
		}
		for _, line := range canvas.Wrap(n.Text, p.Left()) {
			if y < r.Y+r.H {
				m.c.Text(p.X, y, p.Left(), canvas.Normal, line)
			}
			y++
		}
	}
}
