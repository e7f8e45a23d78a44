package panel

import (
	"sort"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// Stalls is the panel that breaks the wall time down: one bar of all of it, then the causes.
type Stalls struct {
	Card
	table canvas.Table[share]
	rows  []share
}

// NewStalls makes the panel.
func NewStalls() *Stalls {
	return &Stalls{
		Card:  Card{Key: "4", Name: "stalls", Title: "Stall breakdown", Side: true},
		table: canvas.Table[share]{Columns: shareColumns, Cursor: -1, Pinned: -1},
	}
}

// Place asks for some rows under the timeline.
func (*Stalls) Place(s Space) Place {
	if s.Class == SizeCompact {
		return Place{Band: lowerBand}
	}
	return Place{Band: mainBand, Under: "timeline", Rows: min(max(5, s.Rest()/6), 8)}
}

// share is a row of the breakdown: a part of the wall time, and what it went to.
type share struct {
	name   string
	letter rune
	hue    canvas.Hue
	of     float64 // of the wall time, pauses left out
	style  canvas.Style
}

var shareColumns = []canvas.Column[share]{
	{W: 1, Cell: func(p *canvas.Pen, s *share) { p.Rune(s.hue.Text(), s.letter) }},
	{W: 10, Cell: func(p *canvas.Pen, s *share) { p.Text(canvas.Normal, s.name) }},
	{W: 2, Most: canvas.Stretch, Cell: func(p *canvas.Pen, s *share) { p.Bar(s.hue.Text(), p.Left(), s.of) }},
	{W: 6, Right: true, Cell: func(p *canvas.Pen, s *share) { p.Bytes(s.style, units.Narrow.AppendPercent(p.Buf(), s.of)) }},
}

// Draw draws the bar and the causes.
func (s *Stalls) Draw(v *View, r canvas.Rectangle) {
	v.Win.dataLine(&v.Head)
	in := r.Indent()
	if in.Empty() {
		return
	}
	if v.Win.Sum.Active() <= 0 {
		v.C.Text(in.X, in.Y, in.W, canvas.Dim, v.Pic.noSteps())
		return
	}
	if in.H >= 3 {
		drawStack(v, in.X, in.Y, in.W)
		in.Y++
		in.H--
	}
	s.drawShares(v, in)
}

// drawStack draws the busy time and every cause as one bar. The bar leaves out parts below half a
// column, which the list has.
func drawStack(v *View, x, y, w int) {
	at, colour := 0.0, !v.C.Theme.Mono && !v.C.Glyphs.ASCII
	part := func(h canvas.Hue, letter rune, f float64) {
		a, b := int(at*float64(w)+0.5), int((at+f)*float64(w)+0.5)
		for i := a; i < min(b, w); i++ {
			r := letter
			if colour && (i > a || h == canvas.Compute) { // the colour of the block is enough
				r = ' '
			}
			v.C.Set(x+i, y, r, h.Solid())
		}
		at += f
	}
	part(canvas.Compute, v.C.Glyphs.Block, v.Win.Util)
	for c := range trace.Cause(trace.NumCauses) {
		if c != trace.CausePaused {
			part(CauseHue(c), c.Info().Letter, v.Win.Sum.Share(c))
		}
	}
}

// drawShares lists busy, data and the causes, in several columns if there is room. Their order
// never changes, so they do not move about. It leaves out causes under 0.05 % and, if there is no
// room, the smallest ones.
func (s *Stalls) drawShares(v *View, r canvas.Rectangle) {
	if r.Empty() {
		return
	}
	const wide = 27
	var list [trace.NumCauses]trace.Cause
	n := 0
	of := v.Win.Sum.Share
	for c := range trace.Cause(trace.NumCauses) {
		if of(c) >= 0.0005 && c != trace.CausePaused {
			list[n] = c
			n++
		}
	}
	side := min(max(1, r.W/wide), (n+1)/r.H+1)
	room := side * r.H
	shown := list[:n]
	if n+2 > room {
		keep := max(0, room-2)
		sort.SliceStable(shown, func(i, j int) bool { return of(shown[i]) > of(shown[j]) })
		shown = shown[:min(keep, len(shown))]
		sort.Slice(shown, func(i, j int) bool { return shown[i] < shown[j] })
	}
	s.rows = append(s.rows[:0],
		share{"compute", v.C.Glyphs.Levels[8], canvas.Compute, v.Win.Util, v.Win.Style()})
	if !v.Live.Meta.Alone() { // otherwise it is not known
		s.rows = append(s.rows, share{"idle: data", '=', canvas.Host, v.Win.Data, StallStyle(v.Win.Data)})
	}
	for _, c := range shown {
		s.rows = append(s.rows, share{c.String(), c.Info().Letter, CauseHue(c), of(c), canvas.Normal})
	}
	w := r.W / side
	for i := range side {
		rows := s.rows[min(i*r.H, len(s.rows)):min((i+1)*r.H, len(s.rows))]
		s.table.Draw(v.C, canvas.Rect(r.X+i*w, r.Y, w-1, r.H), rows)
	}
}
