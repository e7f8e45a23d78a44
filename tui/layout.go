package tui

import (
	"slices"

	"dev.gpustall/tui/canvas"
)

// sizeClass is a size of the screen, which never refuses to run.
type sizeClass uint8

const (
	sizeLine    sizeClass = iota // below 40x8: one line
	sizeSmall                    // below 80x24: verdict, gauges, the STALL lane, the selected knob
	sizeCompact                  // below 120x30: gauges in lines, one panel beside the knobs
	sizeFull
	sizeLarge // from 160x42: the knobs' column down to the end, notes under them
)

func classOf(w, h int) sizeClass {
	switch {
	case w < 40 || h < 8:
		return sizeLine
	case w < 80 || h < 24:
		return sizeSmall
	case w < 120 || h < 30:
		return sizeCompact
	case w < 160 || h < 42:
		return sizeFull
	}
	return sizeLarge
}

// lines is the height of a text that changes while it is read. More lines are given at
// once, fewer only when many texts in a row needed fewer, because each change moves what
// lies around.
type lines struct {
	n     int
	fewer int // texts in a row that needed fewer
}

// fewerTexts is how many texts in a row must be shorter.
const fewerTexts = 10

// need is told how many lines a new text has.
func (l *lines) need(n int) {
	if n < l.n && l.fewer < fewerTexts {
		l.fewer++
		return
	}
	l.n, l.fewer = n, 0
}

// loosen lets the next text have fewer, when everything moves anyway.
func (l *lines) loosen() { l.fewer = fewerTexts }

// space is what there is for the panels.
type space struct {
	class   sizeClass
	w, h    int // of the body, between header and footer
	verdict int // rows of it that the verdict takes
	guide   int // and the story under it
}

// rest is the height that verdict and story leave.
func (s space) rest() int { return s.h - s.verdict - s.guide }

// band is a strip of the body. Bands lie one below the other, and the panels of a
// band side by side.
type band uint8

const (
	nowhere band = iota // the panel is not shown
	verdictBand
	guideBand
	gaugesBand
	mainBand
	lastBand
	numBands

	lowerBand = lastBand // of the compact screen
)

// place is what a panel asks of the layout.
type place struct {
	band  band
	under string // the panel at whose foot it stands, in the same column; "" for a column of its own
	rows  int    // 0: those that the other bands leave
	cols  int    // 0: those that the others of the band leave
}

// leastRows is the height of a panel that shows something, its box included.
const leastRows = 3

// layout is where everything goes. Empty rectangles are not drawn.
type layout struct {
	class          sizeClass
	header, footer canvas.Rectangle
	brief          canvas.Rectangle   // what the small screen shows in place of panels
	panels         []canvas.Rectangle // by number
	places         []place            // likewise, what they ask for
}

func (m *Model) space() space {
	s := space{class: classOf(m.w, m.h), w: m.w, h: m.h - 2}
	if s.class >= sizeCompact {
		s.guide = m.guide.rows(m.w)
		s.verdict = m.verdict.rows(&m.analysis, s)
	}
	return s
}

// layout lays the screen out for the size and the focus that it has.
func (m *Model) layout() *layout {
	l := &m.lay
	s := m.space()
	*l = layout{class: s.class, header: canvas.Rect(0, 0, m.w, 1), panels: l.panels[:0], places: l.places[:0]}
	for range m.panels {
		l.panels = append(l.panels, canvas.Rectangle{})
	}
	if s.class == sizeLine {
		return l
	}
	l.footer = canvas.Rect(0, m.h-1, m.w, 1)
	body := canvas.Rect(0, 1, s.w, s.h)
	if n := m.guide.rows(m.w); n > 0 && (m.expanded || s.class == sizeSmall) && body.H > n+leastRows { // in no band
		body.H -= n
		l.panels[slices.IndexFunc(m.panels, func(p panel) bool { return p.name == "guide" })] = canvas.Rect(0, body.Y+body.H, body.W, n)
	}
	switch {
	case m.expanded || s.class == sizeSmall && !m.focus.small:
		for i := range m.panels {
			if &m.panels[i] == m.focus {
				l.panels[i] = body
			}
		}
	case s.class == sizeSmall:
		l.brief = body
	default:
		l.stack(m.panels, m.side, s, body)
	}
	return l
}

// stack divides the body into bands, and each band into panels.
func (l *layout) stack(panels []panel, side *panel, s space, body canvas.Rectangle) {
	one := s.class == sizeCompact || side.instead // of the side panels
	for i := range panels {
		p := &panels[i]
		pl := p.place(s)
		if p.side && p != side && (one || p.instead) {
			pl = place{}
		}
		l.places = append(l.places, pl)
	}
	// The band in which no panel asks for rows has those that the others leave.
	var rows [numBands]int
	left, loose := body.H, nowhere
	for b := nowhere + 1; b < numBands; b++ {
		used := false
		for _, pl := range l.places {
			if pl.band == b && pl.under == "" {
				rows[b] = max(rows[b], pl.rows)
				used = true
			}
		}
		if used && rows[b] == 0 {
			loose = b
		}
		left -= rows[b]
	}
	rows[loose] += left
	y := body.Y
	for b := nowhere + 1; b < numBands; b++ {
		l.divide(panels, b, canvas.Rect(body.X, y, body.W, rows[b]))
		y += rows[b]
	}
}

// divide gives the panels of a band their columns, and those that stand under others
// their rows of them.
func (l *layout) divide(panels []panel, b band, r canvas.Rectangle) {
	left, sharing := r.W, 0
	for _, pl := range l.places {
		if pl.band == b && pl.under == "" {
			left -= pl.cols
			if pl.cols == 0 {
				sharing++
			}
		}
	}
	x := r.X
	for i, pl := range l.places {
		if pl.band != b || pl.under != "" {
			continue
		}
		w := pl.cols
		if w == 0 {
			w = left / sharing
			left -= w
			sharing--
		}
		l.panels[i] = l.column(panels, b, i, canvas.Rect(x, r.Y, w, r.H))
		x += w
	}
}

// column gives the panels under the one of number top their rows of r, the last one
// the lowest, and returns what is left for it.
func (l *layout) column(panels []panel, b band, top int, r canvas.Rectangle) canvas.Rectangle {
	for i := len(l.places) - 1; i >= 0; i-- {
		pl := &l.places[i]
		if pl.band != b || pl.under != panels[top].name {
			continue
		}
		h := min(pl.rows, r.H-leastRows)
		if h < leastRows {
			continue
		}
		r.H -= h
		l.panels[i] = canvas.Rect(r.X, r.Y+r.H, r.W, h)
	}
	return r
}
