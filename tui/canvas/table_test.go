package canvas

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// measures is a table with every kind of column.
func measures() Table[int] {
	number := func(p *Pen, r *int) { p.Int(Normal, int64(*r)) }
	return Table[int]{Shorten: 2, Cursor: -1, Pinned: -1, By: "value", Columns: []Column[int]{
		{Title: "name", W: 12, Short: 6, Sort: "name", Order: func(a, b *int) int { return *a - *b },
			Cell: func(p *Pen, r *int) { p.Text(Normal, "row "+strconv.Itoa(*r)) }},
		{Title: "value", W: 6, Right: true, Drop: 1, Cell: number, Sort: "value", Order: func(a, b *int) int { return *b - *a }},
		{W: 4, Most: 8, Drop: 2, Cell: func(p *Pen, r *int) { p.Bar(Normal, p.Left(), 0.5) }},
		{Title: "rare", W: 5, Right: true, Drop: 3, Cell: number},
		{Title: "never", W: 5, Shown: func() bool { return false }, Cell: number},
	}}
}

func tableText(t *Table[int], w, h int, rows ...int) string {
	return render(w, h, func(c *Canvas) {
		c.Glyphs = &ASCII
		t.Draw(c, Rect(0, 0, w, h), rows)
	})
}

// TestTableColumns: the columns with the highest drop number are left out first. Names become short
// before the important columns are left out, and the bar takes what is left.
func TestTableColumns(t *testing.T) {
	for _, c := range []struct {
		w         int
		head, row string
	}{
		{40, "name         vvalue           rare      ", "row 7             7 ####....     7      "},
		{31, "name         vvalue        rare", "row 7             7 ###..     7"},
		{30, "name         vvalue       rare", "row 7             7 ##..     7"},
		{29, "name         vvalue          ", "row 7             7 ####.... "},
		{24, "name         vvalue     ", "row 7             7 ##.."},
		{20, "name         vvalue ", "row 7             7 "},
		{18, "name   vvalue     ", "row 7       7 ##.."},
		{12, "name        ", "row 7       "},
		{3, "na~", "ro~"},
	} {
		tb := measures()
		if got := tableText(&tb, c.w, 2, 7); got != c.head+"\n"+c.row {
			t.Errorf("%d columns:\n%s\nwant\n%s\n%s", c.w, got, c.head, c.row)
		}
	}
}

// TestTableFits: the table fits at every width.
func TestTableFits(t *testing.T) {
	tb := measures()
	for w := 6; w < 80; w++ {
		drop, short, used := tb.fit(w)
		if used > 0 {
			used++
		}
		used--
		for i := range tb.Columns {
			if tb.shows(i, drop) {
				used += tb.Columns[i].width(short) + 1
			}
		}
		if used > w || drop < 1 {
			t.Errorf("columns of %d in %d, drop %d", used, w, drop)
		}
	}
}

// TestTableScrolls: the cursor's row and a pinned row stay in sight, and marks say that there are more
// rows.
func TestTableScrolls(t *testing.T) {
	rows := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	shown := func(tb *Table[int]) string {
		var out []string
		for _, line := range strings.Split(tableText(tb, 7, 5, rows...), "\n")[1:] {
			out = append(out, strings.TrimSpace(strings.TrimPrefix(line, "row ")))
		}
		return strings.Join(out, ",")
	}
	tb := measures()
	tb.Marks = true
	for _, c := range []struct {
		cursor, pinned, scroll int
		want                   string
	}{
		{-1, -1, 0, "0,1,2,3 v"},
		{-1, -1, 99, "6 ^,7,8,9"},
		{5, -1, 0, "2 ^,3,4,5 v"},
		{9, 0, 0, "0 ^,7,8,9"},
		{1, 0, 4, "0 ^,1,2,3 v"},
	} {
		tb.Cursor, tb.Pinned, tb.Scroll = c.cursor, c.pinned, c.scroll
		if got := shown(&tb); got != c.want {
			t.Errorf("%+v shows %s", c, got)
		}
	}
}

// TestTableSorts: the table can be sorted by one column after the other.
func TestTableSorts(t *testing.T) {
	tb := measures()
	rows := []int{2, 3, 1}
	for _, want := range [][]int{{3, 2, 1}, {1, 2, 3}, {3, 2, 1}} {
		if tb.Sort(rows); !slices.Equal(rows, want) {
			t.Errorf("by %s: %v, want %v", tb.By, rows, want)
		}
		tb.SortNext()
	}
}
