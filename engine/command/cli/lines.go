package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"

	"dev.gpustall/engine/base/units"
)

// Say writes to a terminal or a log, folded to the terminal's width, and nothing in a
// text that it is given acts on the terminal. All lines for people go through it.
func Say(w io.Writer, format string, args ...any) error {
	_, err := io.WriteString(w, fold(units.Lines(fmt.Sprintf(format, args...)), ColumnsOf(w)))
	return err
}

// ColumnsOf is the width of the terminal that w is, 0 when it is none: what goes
// to a file or a pipe keeps its lines.
func ColumnsOf(w io.Writer) int {
	f, ok := w.(interface{ Fd() uintptr })
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	cols, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return cols
}

// fold breaks each line of text at spaces so that it fits into so many columns. A
// line that begins with a label goes on under what follows the label; others go on
// two columns in. A word that is longer than a line, such as a path, stays whole,
// so that it can be copied.
func fold(text string, columns int) string {
	if columns <= 0 {
		return text
	}
	var b strings.Builder
	for _, line := range strings.SplitAfter(text, "\n") {
		line, end := strings.CutSuffix(line, "\n")
		foldLine(&b, line, columns)
		if end {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func foldLine(b *strings.Builder, line string, columns int) {
	if runewidth.StringWidth(line) <= columns {
		b.WriteString(line)
		return
	}
	indent := 2
	if len(line) > LabelWidth && line[LabelWidth-1] == ' ' && line[LabelWidth] != ' ' && !strings.Contains(strings.TrimRight(line[:LabelWidth], " "), " ") && columns >= 3*LabelWidth {
		indent = LabelWidth
	}
	used, gap := 0, 0 // columns written, spaces that wait for the next word
	for i, word := range strings.SplitAfter(units.Bind(line), " ") {
		word = units.Unbind(word)
		text := strings.TrimRight(word, " ")
		w := runewidth.StringWidth(text)
		alone := used <= indent && indent+w > columns // breaking before it gains nothing
		if i > 0 && w > 0 && used+gap+w > columns && !alone {
			b.WriteByte('\n')
			used, gap = 0, indent
		}
		if w > 0 {
			b.WriteString(strings.Repeat(" ", gap))
			b.WriteString(text)
			used, gap = used+gap+w, 0
		}
		gap += len(word) - len(text)
	}
}

// LabelWidth is how wide the labels of the summary are, with the space after them.
const LabelWidth = 9

// Caret is where in a text an error is, if it says so: the text and a caret, as lines of
// their own.
func Caret(err error) string {
	var at interface{ Caret() string }
	if !errors.As(err, &at) {
		return ""
	}
	return "  " + strings.ReplaceAll(at.Caret(), "\n", "\n  ") + "\n"
}
