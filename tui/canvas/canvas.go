// Package canvas is a grid of character cells with styles. It draws text, boxes, bars and tables on
// it, and has the themes and glyphs that give them their look on a terminal.
package canvas

import "unicode/utf8"

// cell is one character of the screen. The right half of a wide rune is a cell
// with r == 0.
type cell struct {
	r     rune
	style Style
}

// Canvas is a grid of cells that renders to one string. It allocates when it is
// resized and once a frame, for the string.
type Canvas struct {
	W, H   int
	Theme  *Theme
	Glyphs *Glyphs

	cells   []cell
	out     []byte
	scratch [40]byte // what Pen.Buf lends
	pen     Pen      // Table lends it to its columns
	whole   Pen      // Pen.Whole writes with it
	saved   []cell   // Pen.Whole puts it back
}

// Rectangle is a part of the canvas: its upper left cell, columns and rows.
type Rectangle struct{ X, Y, W, H int }

// Rect returns the rectangle at column x and row y that is w columns wide and h rows high.
func Rect(x, y, w, h int) Rectangle { return Rectangle{x, y, w, h} }

// Inner returns the rectangle inside a box's border.
func (r Rectangle) Inner() Rectangle { return Rect(r.X+1, r.Y+1, max(0, r.W-2), max(0, r.H-2)) }

// Indent returns r without its first and its last column.
func (r Rectangle) Indent() Rectangle { return Rect(r.X+1, r.Y, r.W-2, r.H) }

// Empty reports whether nothing can be drawn in r.
func (r Rectangle) Empty() bool { return r.W <= 0 || r.H <= 0 }

// Has reports whether column x and row y are in r.
func (r Rectangle) Has(x, y int) bool { return x >= r.X && x < r.X+r.W && y >= r.Y && y < r.Y+r.H }

// Resize sets the size. What is on the canvas is undefined until Clear.
func (c *Canvas) Resize(w, h int) {
	c.W, c.H = max(w, 0), max(h, 0)
	if n := c.W * c.H; n > cap(c.cells) {
		c.cells = make([]cell, n)
	} else {
		c.cells = c.cells[:n]
	}
}

// Clear fills the canvas with spaces.
func (c *Canvas) Clear() {
	for i := range c.cells {
		c.cells[i] = cell{' ', Normal}
	}
}

// Set writes one narrow rune. Where it overwrites half of a wide rune, the other half becomes a
// space. Outside the canvas it does nothing.
func (c *Canvas) Set(x, y int, r rune, st Style) {
	if x < 0 || y < 0 || x >= c.W || y >= c.H {
		return
	}
	i := y*c.W + x
	if c.cells[i].r == 0 && x > 0 {
		c.cells[i-1].r = ' '
	}
	if x+1 < c.W && c.cells[i+1].r == 0 {
		c.cells[i+1].r = ' '
	}
	c.cells[i] = cell{r, st}
}

// At returns the rune and the style of a cell inside the canvas.
func (c *Canvas) At(x, y int) (rune, Style) {
	ce := c.cells[y*c.W+x]
	return ce.r, ce.style
}

// Restyle changes the style of a cell and keeps its rune.
func (c *Canvas) Restyle(x, y int, st Style) {
	if x >= 0 && y >= 0 && x < c.W && y < c.H {
		c.cells[y*c.W+x].style = st
	}
}

// Fill sets every cell of r.
func (c *Canvas) Fill(r Rectangle, ch rune, st Style) {
	for y := r.Y; y < r.Y+r.H; y++ {
		for x := r.X; x < r.X+r.W; x++ {
			c.Set(x, y, ch, st)
		}
	}
}

// put writes a rune of any width at x if it ends before limit, and returns the next column. It
// writes '?' for a control character and nothing for a combining one. On an ASCII terminal it
// writes u for the µ of µs.
func (c *Canvas) put(x, y, limit int, r rune, st Style) int {
	if r < 0x20 || (r >= 0x7f && r < 0xa0) || r == utf8.RuneError {
		r = '?'
	}
	if r == 'µ' && c.Glyphs != nil && c.Glyphs.ASCII {
		r = 'u'
	}
	switch runeWidth(r) {
	case 0:
		return x
	case 2:
		if x+2 > limit {
			return limit
		}
		c.Set(x, y, r, st)
		if x >= 0 && x+1 < c.W && y >= 0 && y < c.H {
			c.Set(x+1, y, ' ', st)
			c.cells[y*c.W+x].r = r
			c.cells[y*c.W+x+1].r = 0
		}
		return x + 2
	}
	if x < limit {
		c.Set(x, y, r, st)
	}
	return x + 1
}

// Frame renders the canvas: its lines joined by newlines, with an SGR sequence where the look
// changes and a reset at the end of each line that needs one.
func (c *Canvas) Frame() string {
	out := c.out[:0]
	sgr := &c.Theme.sgr
	plain := sgr[Normal]
	for y := 0; y < c.H; y++ {
		if y > 0 {
			out = append(out, '\n')
		}
		cur, seq := Normal, plain
		for _, ce := range c.cells[y*c.W : (y+1)*c.W] {
			if ce.r == 0 {
				continue
			}
			if ce.style != cur {
				cur = ce.style
				if next := sgr[cur]; next != seq {
					out = append(out, next...)
					seq = next
				}
			}
			if ce.r < utf8.RuneSelf {
				out = append(out, byte(ce.r))
			} else {
				out = utf8.AppendRune(out, ce.r)
			}
		}
		if seq != plain {
			out = append(out, plain...)
		}
	}
	c.out = out
	return string(out)
}
