package report

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"dev.gpustall/engine/figures"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// cell escapes the bars of a table's cell that are not escaped yet.
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

// code shows text as it is, whatever it holds.
func code(s string) string {
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	if len(fence) > 1 {
		return fence + " " + s + " " + fence
	}
	return fence + s + fence
}

// quote makes a shell word.
func quote(s string) string {
	if s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_=./:,+@%", r))
	}) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func command(args []string) string {
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = quote(a)
	}
	return strings.Join(words, " ")
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// width is the terminal that the report is printed on, in columns.
const width = 100

// heading, para, line and table write markdown that reads as it is on a terminal.
func (m *markdown) heading(level int, text string) {
	fmt.Fprintf(m.w, "%s %s\n\n", strings.Repeat("#", level), oneLine(text))
}

func (m *markdown) para(format string, args ...any) {
	fmt.Fprintf(m.w, "%s\n\n", wrap(fmt.Sprintf(format, args...)))
}

func (m *markdown) line(format string, args ...any) {
	fmt.Fprintf(m.w, "%s\n", wrap(fmt.Sprintf(format, args...)))
}

// fenced writes what is to be copied as it is, under an item of a list.
func (m *markdown) fenced(text string) {
	fmt.Fprintf(m.w, "\n      %s\n\n", oneLine(text))
}

func oneLine(s string) string { return strings.NewReplacer("\n", " ", "\r", " ").Replace(s) }

// wrap breaks text between words where it would pass the width; the lines that follow
// an item of a list are indented under it. Pictures have no long lines.
func wrap(text string) string {
	text = oneLine(text)
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	indent := strings.Repeat(" ", len(text)-len(strings.TrimLeft(text, " -")))
	var b strings.Builder
	b.WriteString(text[:len(indent)])
	at := len(indent)
	for i, word := range strings.Split(figures.Bind(text[len(indent):]), " ") {
		word = figures.Unbind(word)
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+n > width && !marks(word):
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

// table writes rows, the first of them the head. Columns whose head starts with
// ">" are aligned to the right.
func (m *markdown) table(rows [][]string) {
	head := rows[0]
	widths := make([]int, len(head))
	right := make([]bool, len(head))
	for c, h := range head {
		right[c] = strings.HasPrefix(h, ">")
		head[c] = strings.TrimPrefix(h, ">")
	}
	for _, r := range rows {
		for c := range r {
			r[c] = cell(r[c])
			widths[c] = max(widths[c], utf8.RuneCountInString(r[c]), 3)
		}
	}
	narrow(widths, right)
	for i, r := range rows {
		for c, v := range r {
			v = cut(v, widths[c])
			pad := strings.Repeat(" ", widths[c]-utf8.RuneCountInString(v))
			if right[c] {
				v = pad + v
			} else {
				v += pad
			}
			fmt.Fprintf(m.w, "| %s ", v)
		}
		m.line("|")
		if i > 0 {
			continue
		}
		for c := range head {
			if right[c] {
				fmt.Fprintf(m.w, "| %s: ", strings.Repeat("-", widths[c]-1))
			} else {
				fmt.Fprintf(m.w, "| %s ", strings.Repeat("-", widths[c]))
			}
		}
		m.line("|")
	}
	m.line("")
}

// narrow takes columns of text in, the widest first, until a table fits; those that
// are aligned to the right hold numbers, which are never cut.
func narrow(widths []int, right []bool) {
	total := 1
	for _, w := range widths {
		total += w + 3
	}
	for ; total > width; total-- {
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

// cut ends a text that is too long with an ellipsis.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	s = string([]rune(s)[:n-1])
	if whole := strings.TrimRight(s, "\\"); (len(s)-len(whole))%2 == 1 {
		s = s[:len(s)-1] // of an escaped character
	}
	return s + "…"
}
