package report

import (
	"fmt"
	"strconv"
	"strings"
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

// heading, para and line write markdown; table rows are padded to line up in plain text.
func (m *markdown) heading(level int, text string) {
	fmt.Fprintf(m.w, "%s %s\n\n", strings.Repeat("#", level), text)
}

func (m *markdown) para(format string, args ...any) {
	fmt.Fprintf(m.w, format+"\n\n", args...)
}

func (m *markdown) line(format string, args ...any) {
	fmt.Fprintf(m.w, format+"\n", args...)
}

// table writes rows, the first of them the head. Columns whose head starts with
// ">" are aligned to the right.
func (m *markdown) table(rows [][]string) {
	head := rows[0]
	width := make([]int, len(head))
	right := make([]bool, len(head))
	for c, h := range head {
		right[c] = strings.HasPrefix(h, ">")
		head[c] = strings.TrimPrefix(h, ">")
	}
	for _, r := range rows {
		for c := range r {
			r[c] = cell(r[c])
			width[c] = max(width[c], len([]rune(r[c])), 3)
		}
	}
	for i, r := range rows {
		for c, v := range r {
			pad := strings.Repeat(" ", width[c]-len([]rune(v)))
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
				fmt.Fprintf(m.w, "| %s: ", strings.Repeat("-", width[c]-1))
			} else {
				fmt.Fprintf(m.w, "| %s ", strings.Repeat("-", width[c]))
			}
		}
		m.line("|")
	}
	m.line("")
}
