package panel

import (
	code "dev.gpustall/engine/analysis/lines"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/tui/canvas"
)

// Lines is the panel of the lines of a PyTorch training's code that cost the time.
type Lines struct {
	Card
	table canvas.Table[code.Cost]
	most  float64 // the share of the longest bar
	n     int
}

// NewLines makes the panel.
func NewLines() *Lines {
	l := &Lines{Card: Card{Key: "0", Name: "lines", Title: "Lines", Hint: "lines", Side: true, Instead: true}}
	l.table = canvas.Table[code.Cost]{Columns: l.columns(), Shorten: 5, Cursor: -1, Pinned: -1}
	l.Keys = []Binding{
		scrollKeys(func(by int) { l.table.ScrollBy(by, l.n) }),
		{Keys: "esc", Hint: "back", Replay: "back"},
	}
	return l
}

// Place asks for half of the screen, instead of the other side panels.
func (*Lines) Place(s Space) Place { return placeInstead(s) }

func (l *Lines) columns() []canvas.Column[code.Cost] {
	return []canvas.Column[code.Cost]{
		{Title: "line", W: 24, Short: 18, Cell: func(p *canvas.Pen, c *code.Cost) { p.Text(canvas.Bold, c.Where()) }},
		{Title: "of time", W: 7, Right: true, Cell: func(p *canvas.Pen, c *code.Cost) {
			p.Bytes(canvas.Bold, units.Narrow.AppendPercent(p.Buf(), c.Lost))
		}},
		{W: 10, Drop: 4, Cell: func(p *canvas.Pen, c *code.Cost) { p.Bar(canvas.Warn, p.Left(), c.Lost/max(l.most, 1e-9)) }},
		{Title: "at", W: 7, Drop: 2, Cell: func(p *canvas.Pen, c *code.Cost) { p.Text(canvas.Dim, string(c.At)) }},
		{Title: "source", W: 14, Most: 90, Drop: 1, Cell: func(p *canvas.Pen, c *code.Cost) { p.Text(canvas.Normal, c.What()) }},
		{Title: "most of it in", W: 28, Drop: 3, Cell: func(p *canvas.Pen, c *code.Cost) { p.Text(canvas.Dim, units.Line(c.In)) }},
	}
}

// Draw draws the table.
func (l *Lines) Draw(v *View, r canvas.Rectangle) {
	v.Head.Text(canvas.Dim, "of the script's code, with the settings in force ")
	in := r.Indent()
	if in.Empty() {
		return
	}
	rows := v.Analysis.Told.Lines
	if l.n = len(rows); l.n == 0 {
		v.C.Text(in.X, in.Y, in.W, canvas.Dim, "too few looks at the script's frames so far; the notes say so where they cannot be read")
		return
	}
	l.most = rows[0].Lost
	l.table.Draw(v.C, in, rows)
}
