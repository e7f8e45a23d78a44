package canvas

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// Pen writes a line of text from left to right and stops before its limit.
type Pen struct {
	X, Y  int // where it writes next
	Limit int // the first column that it does not write

	c        *Canvas
	overflow bool
}

// Pen returns a pen for w columns from x.
func (c *Canvas) Pen(x, y, w int) Pen { return Pen{c: c, X: x, Y: y, Limit: min(x+w, c.W)} }

// Text writes s into w columns from x. It is for texts that no other text follows.
func (c *Canvas) Text(x, y, w int, st Style, s string) {
	p := c.Pen(x, y, w)
	p.Text(st, s)
}

// Right writes text of narrow runes so that it ends before column x+w.
func (c *Canvas) Right(x, y, w int, st Style, b []byte) {
	n := min(utf8.RuneCount(b), w)
	p := c.Pen(x+w-n, y, n)
	p.Bytes(st, b)
}

// Left returns the number of columns that remain.
func (p *Pen) Left() int { return max(0, p.Limit-p.X) }

// Buf lends an empty buffer for a number until the next call, so that
// p.Bytes(st, appendNumber(p.Buf(), n)) does not allocate.
func (p *Pen) Buf() []byte { return p.c.scratch[:0] }

// Glyphs returns the glyphs of the canvas.
func (p *Pen) Glyphs() *Glyphs { return p.c.Glyphs }

// Text writes s. A text that does not fit is cut and ends in a tilde.
func (p *Pen) Text(st Style, s string) *Pen {
	for i, r := range s {
		if p.X >= p.Limit || p.X+runeWidth(r) > p.Limit {
			if i > 0 || p.X >= p.Limit {
				p.cut(st)
			}
			return p
		}
		p.X = p.c.put(p.X, p.Y, p.Limit, r, st)
	}
	return p
}

// cut marks the last column with a tilde, which says that there was more. The mark is ASCII with all
// glyphs.
func (p *Pen) cut(st Style) {
	if !p.overflow && p.Limit > 0 {
		p.overflow = true
		p.c.Set(p.Limit-1, p.Y, '~', st)
	}
	p.X = p.Limit
}

// Bytes writes text of narrow runes, such as a number with its unit.
func (p *Pen) Bytes(st Style, b []byte) *Pen {
	for len(b) > 0 {
		if p.X >= p.Limit {
			p.cut(st)
			return p
		}
		r, size := utf8.DecodeRune(b)
		p.X = p.c.put(p.X, p.Y, p.Limit, r, st)
		b = b[size:]
	}
	return p
}

// Rune writes r where it fits.
func (p *Pen) Rune(st Style, r rune) *Pen {
	if p.X < p.Limit {
		p.X = p.c.put(p.X, p.Y, p.Limit, r, st)
	}
	return p
}

// Whole writes what write writes. If not all of that fits, it writes nothing and returns false.
func (p *Pen) Whole(write func(*Pen)) bool {
	c := p.c
	row := c.row(p.X, p.Limit, p.Y)
	c.saved = append(c.saved[:0], row...)
	c.whole = *p // write gets this copy, because p would move to the heap
	write(&c.whole)
	if !c.whole.overflow {
		*p = c.whole
		return true
	}
	copy(row, c.saved)
	return false
}

// row returns the cells of line y from column x up to end, as far as they exist.
func (c *Canvas) row(x, end, y int) []cell {
	x, end = max(x, 0), min(end, c.W)
	if y < 0 || y >= c.H || x >= end {
		return nil
	}
	return c.cells[y*c.W+x : y*c.W+end]
}

// Space skips n columns.
func (p *Pen) Space(n int) *Pen { p.X = min(p.X+n, p.Limit); return p }

// To moves on to column x of the canvas. It never moves back.
func (p *Pen) To(x int) *Pen { p.X = min(max(x, p.X), p.Limit); return p }

// Int writes v without separators.
func (p *Pen) Int(st Style, v int64) *Pen {
	return p.Bytes(st, strconv.AppendInt(p.Buf(), v, 10))
}

// width tells how many columns a rune takes. East Asian ambiguous runes count as one column, because
// our own glyphs do.
var width = &runewidth.Condition{EastAsianWidth: false, StrictEmojiNeutral: true}

func runeWidth(r rune) int {
	if r >= 0x20 && r < 0x7f {
		return 1
	}
	return width.RuneWidth(r)
}

// Width returns the number of columns that s takes.
func Width(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// Wrap breaks s into lines of at most w columns, at spaces where it can.
func Wrap(s string, w int) []string {
	if w <= 0 {
		return nil
	}
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		for Width(word) > w {
			if line != "" {
				lines = append(lines, line)
				line = ""
			}
			head, rest := Cut(word, w)
			lines = append(lines, head)
			word = rest
		}
		switch {
		case line == "":
			line = word
		case Width(line)+1+Width(word) <= w:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// Cut splits s after the last rune that fits in w columns, or after its first.
func Cut(s string, w int) (head, rest string) {
	n := 0
	for i, r := range s {
		n += runeWidth(r)
		if n > w && i > 0 {
			return s[:i], s[i:]
		}
	}
	return s, ""
}
