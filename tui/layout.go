package tui

import (
	"slices"

	"dev.gpustall/tui/canvas"
	"dev.gpustall/tui/panel"
)

// layout is where everything goes. Empty rectangles are not drawn.
type layout struct {
	w, h           int // of the screen
	class          panel.SizeClass
	header, footer canvas.Rectangle
	brief          canvas.Rectangle   // what the small screen shows instead of panels
	panels         []canvas.Rectangle // by the panel's number
	places         []panel.Place      // likewise, what the panels ask for
}

// arrange lays out the panels, given which has the focus. s is the space for them, and story is
// how many rows the story takes.
func (l *layout) arrange(f *focus, s panel.Space, story int) {
	*l = layout{w: l.w, h: l.h, class: s.Class, header: canvas.Rect(0, 0, l.w, 1), panels: l.panels[:0], places: l.places[:0]}
	for range f.panels {
		l.panels = append(l.panels, canvas.Rectangle{})
	}
	if s.Class == panel.SizeLine {
		return
	}
	l.footer = canvas.Rect(0, l.h-1, l.w, 1)
	body := canvas.Rect(0, 1, s.W, s.H)
	if story > 0 && (f.expanded || s.Class == panel.SizeSmall) && body.H > story+panel.LeastRows { // there are no bands here
		body.H -= story
		l.panels[slices.Index(f.panels, f.named("guide"))] = canvas.Rect(0, body.Y+body.H, body.W, story)
	}
	switch {
	case f.expanded || s.Class == panel.SizeSmall && !f.now.Describe().Small:
		l.panels[slices.Index(f.panels, f.now)] = body
	case s.Class == panel.SizeSmall:
		l.brief = body
	default:
		l.stack(f.panels, f.side, s, body)
	}
}

// inside returns the columns inside the box of a panel, or those that it would have if
// it were shown.
func (l *layout) inside(f *focus, p panel.Panel) int {
	if !l.brief.Empty() {
		return l.w
	}
	if r := l.panels[slices.Index(f.panels, p)]; !r.Empty() {
		return r.Inner().W
	}
	return l.w - 2
}

// at returns the number of the panel that is drawn at column x and row y; -1 where none is.
func (l *layout) at(x, y int) int {
	return slices.IndexFunc(l.panels, func(r canvas.Rectangle) bool { return r.Has(x, y) })
}

// stack divides the body into bands, and each band into panels.
func (l *layout) stack(panels []panel.Panel, side panel.Panel, s panel.Space, body canvas.Rectangle) {
	one := s.Class == panel.SizeCompact || side.Describe().Instead // only one side panel is shown
	for _, p := range panels {
		card, pl := p.Describe(), p.Place(s)
		if card.Side && p != side && (one || card.Instead) {
			pl = panel.Place{}
		}
		l.places = append(l.places, pl)
	}
	// The band in which no panel asks for rows gets the rows that the others leave.
	var rows [panel.NumBands]int
	left, loose := body.H, panel.Nowhere
	for b := panel.Nowhere + 1; b < panel.NumBands; b++ {
		used := false
		for _, pl := range l.places {
			if pl.Band == b && pl.Under == "" {
				rows[b] = max(rows[b], pl.Rows)
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
	for b := panel.Nowhere + 1; b < panel.NumBands; b++ {
		l.divide(panels, b, canvas.Rect(body.X, y, body.W, rows[b]))
		y += rows[b]
	}
}

// divide gives the panels of a band their columns. A panel that stands under another panel
// gets rows of that panel's column.
func (l *layout) divide(panels []panel.Panel, b panel.Band, r canvas.Rectangle) {
	left, sharing := r.W, 0
	for _, pl := range l.places {
		if pl.Band == b && pl.Under == "" {
			left -= pl.Cols
			if pl.Cols == 0 {
				sharing++
			}
		}
	}
	x := r.X
	for i, pl := range l.places {
		if pl.Band != b || pl.Under != "" {
			continue
		}
		w := pl.Cols
		if w == 0 {
			w = left / sharing
			left -= w
			sharing--
		}
		l.panels[i] = l.column(panels, b, i, canvas.Rect(x, r.Y, w, r.H))
		x += w
	}
}

// column gives the panels under panel number top their rows of r, the last one the lowest. It
// returns what is left for the panel itself.
func (l *layout) column(panels []panel.Panel, b panel.Band, top int, r canvas.Rectangle) canvas.Rectangle {
	for i := len(l.places) - 1; i >= 0; i-- {
		pl := &l.places[i]
		if pl.Band != b || pl.Under != panels[top].Describe().Name {
			continue
		}
		h := min(pl.Rows, r.H-panel.LeastRows)
		if h < panel.LeastRows {
			continue
		}
		r.H -= h
		l.panels[i] = canvas.Rect(r.X, r.Y+r.H, r.W, h)
	}
	return r
}
