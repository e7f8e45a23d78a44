package report

import (
	"strconv"
	"strings"

	"dev.gpustall/engine/report/markup"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func command(args []string) string {
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = markup.ShellWord(a)
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
