package tui

import "dev.gpustall/engine/trace"

// helpKeys is the help screen's first part: keys and what they do.
var helpKeys = [][2]string{
	{"tab 1-5", "focus a panel: timeline, knobs, verdict, stalls, experiments"},
	{"f", "expand the focused panel, and back; stalls: with the device ops"},
	{"up down / j k", "knobs, experiments: select; timeline: scroll the workers"},
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
		r.h = min(b.h, len(helpKeys)+helpLegend+3)
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
	m.scroll = max(0, min(m.scroll, len(helpKeys)+helpLegend+1-in.h))
	m.drawHelp(in)
}

// helpLegend is the number of lines of the legend under the keys.
const helpLegend = 9

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
	kw := 18
	if r.w < 60 {
		kw = 10
	}
	for _, k := range helpKeys {
		p := line()
		if p.limit == 0 {
			continue
		}
		head := p
		head.limit = p.x + kw
		head.text(stKey, k[0])
		p.to(p.x + kw)
		p.text(stNormal, k[1])
	}
	line()
	p := line()
	p.text(stBold, "The lanes. ").text(stNormal, "Workers and STALL share these letters; small: under half a column.")
	for row := range 4 {
		p = line()
		if p.limit == 0 {
			continue
		}
		for i := row; i < trace.NumCauses-1; i += 4 {
			p.rune(hue(i).solid(), causeLetter[i]).space(1).text(stNormal, trace.Cause(i).String())
			p.to(r.x + 1 + (i/4+1)*17)
		}
	}
	p = line()
	p.text(stNormal, "host lane: ").text(stBold, "N").text(stNormal, " waits for a batch  ").text(stBold, "L").text(stNormal, " enqueues  ").
		text(stBold, "Y").text(stNormal, " synchronises  ").text(stBold, "X").text(stNormal, " applies a knob")
	p = line()
	p.text(stNormal, "ready q, H2D, compute: the height is how full or busy the column is")
	p = line()
	p.text(stNormal, "util ").text(stGood, "ok from 85%").text(stNormal, ", ").text(stWarn, "! from 60%").text(stNormal, ", ").text(stBad, "!! below").
		text(stNormal, "; stall ").text(stGood, "under 5%").text(stNormal, ", ").text(stWarn, "to 20%").text(stNormal, ", ").text(stBad, "over")
	p = line()
	p.text(stNormal, "A knob shows the value that the trace confirms: staged, requested, confirmed.")
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
