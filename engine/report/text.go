package report

import (
	"strconv"
	"strings"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

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

// heading, para, line, fenced and table add to the report.
func (m *markdown) heading(level int, text string) { m.doc.Heading(level, text) }

func (m *markdown) para(format string, args ...any) { m.doc.Para(format, args...) }

func (m *markdown) line(format string, args ...any) { m.doc.Line(format, args...) }

func (m *markdown) fenced(text string) { m.doc.Fenced(text) }

func (m *markdown) table(rows [][]string) { m.doc.Table(rows) }
