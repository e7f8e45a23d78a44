package markup

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"dev.gpustall/engine/base/units"
)

// Width is how many columns markdown takes: text is wrapped to it and tables are cut to it.
// Numbers in tables are never cut.
const Width = 100

// Markdown writes the document so that it reads well as plain text. It fails only when w
// does.
func (d *Document) Markdown(w io.Writer) error {
	b := bufio.NewWriter(w) // keeps errors until Flush
	for i := range d.blocks {
		switch x := &d.blocks[i]; x.kind {
		case heading:
			fmt.Fprintf(b, "%s %s\n\n", strings.Repeat("#", x.level), x.text)
		case paragraph:
			fmt.Fprintf(b, "%s\n\n", wrap(x.text))
		case line:
			fmt.Fprintf(b, "%s\n", wrap(x.text))
		case fenced:
			fmt.Fprintf(b, "\n      %s\n\n", x.text)
		case table:
			writeTable(b, x.rows)
		case timeline:
			fmt.Fprintf(b, "```\n%s\n```\n\n", strings.Join(x.lanes.Text, "\n"))
		case picture:
			if x.picture.File != "" {
				fmt.Fprintf(b, "![%s](<%s>)\n\n", x.picture.Title, x.picture.File)
			}
		}
	}
	return b.Flush()
}

// wrap breaks text between words where it would pass the width. It indents the further lines
// of an item of a list. Pictures made of characters have no long lines.
func wrap(text string) string {
	if utf8.RuneCountInString(text) <= Width {
		return text
	}
	indent := strings.Repeat(" ", len(text)-len(strings.TrimLeft(text, " -")))
	var b strings.Builder
	b.WriteString(text[:len(indent)])
	at := len(indent)
	for i, word := range strings.Split(units.Bind(text[len(indent):]), " ") {
		word = units.Unbind(word)
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+n > Width && !marks(word):
			b.WriteString("\n" + indent)
			at = len(indent)
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}

// marks reports whether a word would begin a list, a heading or a quote if it began a line.
func marks(word string) bool {
	return strings.Trim(word, "-+*#=") == "" || word == "1." || word == "1)" || strings.HasPrefix(word, ">")
}

// writeTable writes a table. Its columns are as wide as they need to be, as far as that fits.
func writeTable(w io.Writer, rows [][]string) {
	cells := make([][]string, len(rows))
	widths, right := make([]int, len(rows[0])), make([]bool, len(rows[0]))
	for i, r := range rows {
		cells[i] = make([]string, len(r))
		for c, v := range r {
			if i == 0 {
				v, right[c] = align(v)
			}
			v = cell(v)
			cells[i][c] = v
			widths[c] = max(widths[c], utf8.RuneCountInString(v), 3)
		}
	}
	narrow(widths, right)
	for i, r := range cells {
		for c, v := range r {
			v = cut(v, widths[c])
			pad := strings.Repeat(" ", widths[c]-utf8.RuneCountInString(v))
			if right[c] {
				v = pad + v
			} else {
				v += pad
			}
			fmt.Fprintf(w, "| %s ", v)
		}
		fmt.Fprintln(w, "|")
		if i > 0 {
			continue
		}
		for c := range r {
			if right[c] {
				fmt.Fprintf(w, "| %s: ", strings.Repeat("-", widths[c]-1))
			} else {
				fmt.Fprintf(w, "| %s ", strings.Repeat("-", widths[c]))
			}
		}
		fmt.Fprintln(w, "|")
	}
	fmt.Fprintln(w)
}

// align returns the head of a column, and whether the column is aligned to the right.
func align(head string) (text string, right bool) { return strings.CutPrefix(head, ">") }

// cell escapes the bars of a table's cell, except those that are escaped already.
func cell(s string) string {
	var b strings.Builder
	slashes := 0 // before this character
	for i := range len(s) {
		if s[i] == '|' && slashes%2 == 0 {
			b.WriteByte('\\')
		}
		if b.WriteByte(s[i]); s[i] == '\\' {
			slashes++
		} else {
			slashes = 0
		}
	}
	return b.String()
}

// narrow makes columns of text narrower, the widest first, until the table fits. Columns
// that are aligned to the right hold numbers, which are never cut.
func narrow(widths []int, right []bool) {
	total := 1
	for _, w := range widths {
		total += w + 3
	}
	for ; total > Width; total-- {
		widest := -1
		for c, w := range widths {
			if !right[c] && w > 8 && (widest < 0 || w > widths[widest]) {
				widest = c
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

// cut shortens a text to n characters and puts an ellipsis where it cuts. It cuts at the
// end, or in the middle of a single word, such as a function's name, which differs from
// others by its end.
func cut(s string, n int) string {
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	end := ""
	if !strings.Contains(s, " ") {
		from := len(runes) - (n-1)/2
		if escaped(string(runes[:from])) {
			from++
		}
		end = string(runes[from:])
		n -= len(runes) - from
	}
	if s = string(runes[:n-1]); escaped(s) {
		s = s[:len(s)-1]
	}
	return s + "…" + end
}

// escaped reports whether a backslash at the end of s escapes the character that follows.
func escaped(s string) bool {
	return (len(s)-len(strings.TrimRight(s, "\\")))%2 == 1
}
