package canvas

import "math"

// Box draws a border with a title and returns a pen behind the title. key gives the box the focus,
// and is "" where the box cannot have it.
func (c *Canvas) Box(r Rectangle, key, title string, focused bool) Pen {
	if r.W < 2 || r.H < 2 {
		return c.Pen(r.X, r.Y, 0)
	}
	border, head := Border, Title
	if focused {
		border, head = BorderFocus, TitleFocus
	}
	g := c.Glyphs
	x1, y1 := r.X+r.W-1, r.Y+r.H-1
	for x := r.X + 1; x < x1; x++ {
		c.Set(x, r.Y, g.Hor, border)
		c.Set(x, y1, g.Hor, border)
	}
	for y := r.Y + 1; y < y1; y++ {
		c.Set(r.X, y, g.Vert, border)
		c.Set(x1, y, g.Vert, border)
	}
	c.Set(r.X, r.Y, g.TopLeft, border)
	c.Set(x1, r.Y, g.TopRight, border)
	c.Set(r.X, y1, g.BottomLeft, border)
	c.Set(x1, y1, g.BottomRight, border)
	p := c.Pen(r.X+2, r.Y, r.W-4)
	p.Text(head, " ")
	if key != "" {
		p.Text(Key, key).Text(head, " ")
	}
	p.Text(head, title).Text(head, " ")
	return p
}

// Rule draws a horizontal line over the columns of r.
func (c *Canvas) Rule(r Rectangle, y int) {
	for x := r.X; x < r.X+r.W; x++ {
		c.Set(x, y, c.Glyphs.Hor, Border)
	}
}

// ScrollMarks draws arrows at the right edge of r, which say that there is more above or below.
func (c *Canvas) ScrollMarks(r Rectangle, above, below bool) {
	if above {
		c.Set(r.X+r.W-1, r.Y, c.Glyphs.Up, Key)
	}
	if below && r.H > 0 {
		c.Set(r.X+r.W-1, r.Y+r.H-1, c.Glyphs.Down, Key)
	}
}

// Bar writes a bar of w columns with the share f of it filled, in halves of a column. A share above
// 0.5 % fills at least one half.
func (p *Pen) Bar(st Style, w int, f float64) *Pen {
	if math.IsNaN(f) {
		f = 0
	}
	f = min(max(f, 0), 1)
	halves := int(f*float64(2*w) + 0.5)
	if halves == 0 && f > 0.005 {
		halves = 1
	}
	g := p.c.Glyphs
	for i := range w {
		switch {
		case halves >= 2*i+2:
			p.c.Set(p.X+i, p.Y, g.Bar, st)
		case halves == 2*i+1:
			p.c.Set(p.X+i, p.Y, g.Half, st)
		default:
			p.c.Set(p.X+i, p.Y, g.Rest, Dim)
		}
	}
	p.X += w
	return p
}

// Height draws a column that fills the share f of the h rows from y down, in eighths of a row. A
// share above 0 fills at least one eighth.
func (c *Canvas) Height(x, y, h int, f float64, st Style) {
	eighths := int(f*float64(8*h) + 0.5)
	if eighths == 0 && f > 0 {
		eighths = 1
	}
	for row := range h {
		if k := min(eighths-8*(h-1-row), 8); k > 0 {
			c.Set(x, y+row, c.Glyphs.Levels[k], st)
		}
	}
}
