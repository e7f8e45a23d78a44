package canvas

import "slices"

// Column is a column of a table of rows of type R.
type Column[R any] struct {
	Title string
	W     int  // columns of the canvas that it takes
	Short int  // likewise, where the table is narrow; 0: W
	Most  int  // above W: the column stretches from W up to Most, into what the other columns leave
	Right bool // it is aligned to the right, as numbers are

	// When the table is too narrow, the columns with the highest Drop are left out first. Columns
	// with 0 always stay. A column that stretches is shown again if there is room for it.
	Drop int

	Sort  string             // what sorting by it is called; "" where that is not possible
	Order func(a, b *R) int  // compares two rows when sorted by it
	Shown func() bool        // whether it is part of the table now; nil: always
	Cell  func(p *Pen, r *R) // writes the cell of a row, from left to right
}

// Table draws rows of type R under the titles of its columns, if any has a title.
type Table[R any] struct {
	Columns []Column[R]

	// Columns with a Drop above Shorten are left out before any column is made short. The others
	// are left out only if the short columns do not fit either.
	Shorten int
	Marks   bool // arrows at the right say that there is more above or below

	By     string // the Sort of the column that the rows are sorted by
	Scroll int    // the first row that is drawn
	Cursor int    // the row that is kept in sight; below 0: none
	Lit    bool   // the cursor's row is highlighted
	Pinned int    // the row drawn first when it is scrolled out of sight; below 0: none

	above, shown int // as drawn last: the lines above the rows that scroll, and how many of these there are
}

// Stretch is the Most of a column that stretches without a limit.
const Stretch = 1 << 16

func (t *Table[R]) shows(i, drop int) bool {
	c := &t.Columns[i]
	return c.Drop < drop && c.Most == 0 && (c.Shown == nil || c.Shown())
}

func (c *Column[R]) width(short bool) int {
	if short && c.Short > 0 {
		return c.Short
	}
	return c.W
}

// fit chooses what fits into w. Columns whose Drop is below drop are shown, in short form if
// short is set. stretch is the width of the column that stretches, and 0 where there is no room
// for it.
func (t *Table[R]) fit(w int) (drop int, short bool, stretch int) {
	var loose *Column[R]
	for i := range t.Columns {
		drop = max(drop, t.Columns[i].Drop+1)
		if t.Columns[i].Most > 0 {
			loose = &t.Columns[i]
		}
	}
	for ; drop > 0; drop-- {
		for _, short = range [...]bool{false, true} {
			used := -1 // there is no gap behind the last column
			for i := range t.Columns {
				if t.shows(i, drop) {
					used += t.Columns[i].width(short) + 1
				}
			}
			if used <= w {
				if loose == nil {
					return drop, short, 0
				}
				if left := min(w-used-1, loose.Most); left >= loose.W {
					return drop, short, left
				}
				if drop <= loose.Drop {
					return drop, short, 0
				}
			}
			if drop > t.Shorten {
				break
			}
		}
	}
	return 1, true, 0
}

// Room returns the width of the column that stretches in a table w wide, 0 where there is no room
// for it.
func (t *Table[R]) Room(w int) int {
	_, _, stretch := t.fit(w)
	return stretch
}

// Draw draws the titles and as many rows as there is room for.
func (t *Table[R]) Draw(c *Canvas, r Rectangle, rows []R) {
	w := r.W
	if t.Marks {
		w--
	}
	drop, short, stretch := t.fit(w)
	line := func(y int, row *R) {
		x, end := r.X, r.X+w
		for i := range t.Columns {
			col := &t.Columns[i]
			cw := col.width(short)
			if col.Most > 0 {
				cw = stretch
			} else if !t.shows(i, drop) {
				continue
			}
			if cw = min(cw, end-x); cw <= 0 {
				continue
			}
			p := &c.pen
			*p = c.Pen(x, y, cw)
			if row == nil {
				t.title(p, col)
			} else {
				col.Cell(p, row)
			}
			if col.Right {
				c.shift(x, y, p.X-x, p.Limit-x)
			}
			x += cw + 1
		}
	}
	y, left := r.Y, r.H
	if slices.ContainsFunc(t.Columns, func(c Column[R]) bool { return c.Title != "" }) {
		line(y, nil)
		y++
		left--
	}
	if left <= 0 {
		return
	}
	t.scroll(len(rows), left)
	body := Rect(r.X, y, r.W, left)
	if t.Pinned >= 0 && t.Pinned < t.Scroll && left >= 3 {
		line(y, &rows[t.Pinned])
		y++
		left--
		t.scroll(len(rows), left)
	}
	t.above, t.shown = y-r.Y, min(left, len(rows)-t.Scroll)
	for i := range t.shown {
		line(y+i, &rows[t.Scroll+i])
		if t.Lit && t.Scroll+i == t.Cursor {
			for x := r.X; x < r.X+r.W; x++ {
				c.Restyle(x, y+i, Selected)
			}
		}
	}
	if t.Marks {
		c.ScrollMarks(body, t.Scroll > 0, t.Scroll+t.shown < len(rows))
	}
}

// At returns the row that was drawn last in a line of the table; -1 where none was.
func (t *Table[R]) At(line int) int {
	if line < t.above || line >= t.above+t.shown {
		return -1
	}
	return t.Scroll + line - t.above
}

// ScrollBy scrolls n rows by lines. Draw then stops at the last row.
func (t *Table[R]) ScrollBy(lines, n int) { t.Scroll = max(0, min(t.Scroll+lines, n)) }

// scroll limits Scroll to the n rows that there are, and keeps the cursor's row in sight.
func (t *Table[R]) scroll(n, room int) {
	if t.Cursor >= 0 {
		t.Scroll = min(max(t.Scroll, t.Cursor-room+1), t.Cursor)
	}
	t.Scroll = max(0, min(t.Scroll, n-room))
}

// title writes a column's title, with an arrow where the rows are sorted by it.
func (t *Table[R]) title(p *Pen, c *Column[R]) {
	if c.Sort == "" || c.Sort != t.By {
		p.Text(Dim, c.Title)
		return
	}
	if c.Right {
		p.Rune(Key, p.c.Glyphs.Down)
	}
	p.Text(Key, c.Title)
	if !c.Right {
		p.Rune(Key, p.c.Glyphs.Down)
	}
}

// Sort sorts rows by the column that By names.
func (t *Table[R]) Sort(rows []R) {
	for i := range t.Columns {
		if c := &t.Columns[i]; c.Sort != "" && c.Sort == t.By {
			slices.SortStableFunc(rows, func(a, b R) int { return c.Order(&a, &b) })
		}
	}
}

// SortNext goes on to the next column that rows can be sorted by.
func (t *Table[R]) SortNext() {
	var names []string
	for i := range t.Columns {
		if s := t.Columns[i].Sort; s != "" {
			names = append(names, s)
		}
	}
	if len(names) > 0 {
		t.By = names[(slices.Index(names, t.By)+1)%len(names)]
	}
}

// shift moves the first used cells of the w cells from x to the end of these.
func (c *Canvas) shift(x, y, used, w int) {
	if used <= 0 || used >= w || x < 0 || y < 0 || y >= c.H || x+w > c.W {
		return
	}
	cells := c.cells[y*c.W+x : y*c.W+x+w]
	copy(cells[w-used:], cells[:used])
	for i := range w - used {
		cells[i] = cell{' ', Normal}
	}
}
