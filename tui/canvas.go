package tui

import (
	"strconv"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// cell is one character of the screen. The right half of a wide rune is a cell
// with r == 0.
type cell struct {
	r     rune
	style style
}

// canvas is a grid of cells that renders to one string. It allocates when it is
// resized and once a frame, for the string.
type canvas struct {
	w, h  int
	cells []cell
	out   []byte
	num   [40]byte // scratch for numbers
}

// rect is a rectangle of cells.
type rect struct{ x, y, w, h int }

// inner is the rectangle inside a box's border.
func (r rect) inner() rect { return rect{r.x + 1, r.y + 1, max(0, r.w-2), max(0, r.h-2)} }

func (r rect) empty() bool { return r.w <= 0 || r.h <= 0 }

// width is the number of columns a rune takes. East Asian ambiguous runes count
// as one column, because our own glyphs are drawn as one.
var width = &runewidth.Condition{EastAsianWidth: false, StrictEmojiNeutral: true}

func runeWidth(r rune) int {
	if r >= 0x20 && r < 0x7f {
		return 1
	}
	return width.RuneWidth(r)
}

func (c *canvas) resize(w, h int) {
	c.w, c.h = max(w, 0), max(h, 0)
	if n := c.w * c.h; n > cap(c.cells) {
		c.cells = make([]cell, n)
	} else {
		c.cells = c.cells[:n]
	}
}

func (c *canvas) clear() {
	for i := range c.cells {
		c.cells[i] = cell{' ', stNormal}
	}
}

// set writes one narrow rune and keeps wide runes whole: half of one that is
// overwritten turns into a space.
func (c *canvas) set(x, y int, r rune, st style) {
	if x < 0 || y < 0 || x >= c.w || y >= c.h {
		return
	}
	i := y*c.w + x
	if c.cells[i].r == 0 && x > 0 {
		c.cells[i-1].r = ' '
	}
	if x+1 < c.w && c.cells[i+1].r == 0 {
		c.cells[i+1].r = ' '
	}
	c.cells[i] = cell{r, st}
}

// restyle changes the style of a cell and keeps its rune.
func (c *canvas) restyle(x, y int, st style) {
	if x >= 0 && y >= 0 && x < c.w && y < c.h {
		c.cells[y*c.w+x].style = st
	}
}

func (c *canvas) fill(r rect, ch rune, st style) {
	for y := r.y; y < r.y+r.h; y++ {
		for x := r.x; x < r.x+r.w; x++ {
			c.set(x, y, ch, st)
		}
	}
}

// put writes a rune of any width at x if it ends before limit and returns the
// next column. Control characters show as '?', combining ones are left out.
func (c *canvas) put(x, y, limit int, r rune, st style) int {
	if r < 0x20 || (r >= 0x7f && r < 0xa0) || r == utf8.RuneError {
		r = '?'
	}
	switch runeWidth(r) {
	case 0:
		return x
	case 2:
		if x+2 > limit {
			return limit
		}
		c.set(x, y, r, st)
		if x >= 0 && x+1 < c.w && y >= 0 && y < c.h {
			c.set(x+1, y, ' ', st)
			c.cells[y*c.w+x].r = r
			c.cells[y*c.w+x+1].r = 0
		}
		return x + 2
	}
	if x < limit {
		c.set(x, y, r, st)
	}
	return x + 1
}

// pen writes a line of text from left to right and stops at its limit.
type pen struct {
	c        *canvas
	x, y     int
	limit    int
	overflow bool
}

func (c *canvas) pen(x, y, w int) pen { return pen{c: c, x: x, y: y, limit: min(x+w, c.w)} }

// left is the number of columns that remain.
func (p *pen) left() int { return max(0, p.limit-p.x) }

// text writes s; what does not fit ends in an ellipsis.
func (p *pen) text(st style, s string) *pen {
	for i, r := range s {
		if p.x >= p.limit || p.x+runeWidth(r) > p.limit {
			if i > 0 || p.x >= p.limit {
				p.ellipsis(st)
			}
			return p
		}
		p.x = p.c.put(p.x, p.y, p.limit, r, st)
	}
	return p
}

// ellipsis marks the last column as cut.
func (p *pen) ellipsis(st style) {
	if !p.overflow && p.limit > 0 {
		p.overflow = true
		p.c.set(p.limit-1, p.y, '~', st) // ASCII: the same in every charset
	}
	p.x = p.limit
}

// bytes writes ASCII text.
func (p *pen) bytes(st style, b []byte) *pen {
	for _, ch := range b {
		if p.x >= p.limit {
			p.ellipsis(st)
			return p
		}
		p.c.set(p.x, p.y, rune(ch), st)
		p.x++
	}
	return p
}

func (p *pen) rune(st style, r rune) *pen {
	if p.x < p.limit {
		p.x = p.c.put(p.x, p.y, p.limit, r, st)
	}
	return p
}

func (p *pen) space(n int) *pen { p.x = min(p.x+n, p.limit); return p }

// to moves to column x of the screen.
func (p *pen) to(x int) *pen { p.x = min(max(x, p.x), p.limit); return p }

// int writes v with thousands separators.
func (p *pen) int(st style, v int64) *pen {
	return p.bytes(st, appendCount(p.c.num[:0], v))
}

// plain writes v without separators.
func (p *pen) plain(st style, v int64) *pen {
	return p.bytes(st, strconv.AppendInt(p.c.num[:0], v, 10))
}

func (p *pen) dur(st style, ns int64) *pen { return p.bytes(st, appendDur(p.c.num[:0], ns)) }

// pct writes a fraction as a percentage.
func (p *pen) pct(st style, f float64) *pen { return p.bytes(st, appendPct(p.c.num[:0], f)) }

func (p *pen) float(st style, f float64, prec int) *pen {
	return p.bytes(st, strconv.AppendFloat(p.c.num[:0], f, 'f', prec, 64))
}

func (p *pen) size(st style, n float64) *pen { return p.bytes(st, appendSize(p.c.num[:0], n)) }

func (p *pen) memory(st style, n int64) *pen { return p.bytes(st, appendMemory(p.c.num[:0], n)) }

func (p *pen) rate(st style, v float64) *pen { return p.bytes(st, appendRate(p.c.num[:0], v)) }

// right writes b so that it ends before column x+w.
func (c *canvas) right(x, y, w int, st style, b []byte) {
	if len(b) > w {
		b = b[:w]
	}
	p := c.pen(x+w-len(b), y, len(b))
	p.bytes(st, b)
}

// textWidth is the number of columns s takes.
func textWidth(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// frame renders the canvas: lines joined by newlines, an SGR sequence where the
// look changes, a reset at the end of each line that needs one.
func (c *canvas) frame(sgr *[numStyles]string) string {
	out := c.out[:0]
	plain := sgr[stNormal]
	for y := 0; y < c.h; y++ {
		if y > 0 {
			out = append(out, '\n')
		}
		cur, seq := stNormal, plain
		for _, ce := range c.cells[y*c.w : (y+1)*c.w] {
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

// hint writes s on a pen that is used for nothing else.
func (p pen) hint(st style, s string) { p.text(st, s) }

// raw is hint for bytes.
func (p pen) raw(st style, b []byte) { p.bytes(st, b) }
