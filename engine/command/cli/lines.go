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

// Say writes lines for people to a terminal or a log, folded to the width of the terminal.
// Control characters in the arguments do not reach the terminal.
func Say(w io.Writer, format string, args ...any) error {
	_, err := io.WriteString(w, fold(units.Lines(fmt.Sprintf(format, args...)), ColumnsOf(w)))
	return err
}

// ColumnsOf returns the width of w if it is a terminal, and 0 otherwise. Lines to a file or a
// pipe are not folded.
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

// fold breaks lines at spaces so that they fit into so many columns. If a line begins with a
// label, it continues below the text after the label. Other lines continue two columns further
// in. A word that is longer than a line, such as a path, stays whole so that it can be copied.
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
	if len(line) > LabelWidth && line[LabelWidth-1] == ' ' && line[LabelWidth] != ' ' && !strings.Contains(strings.TrimRight(line[:LabelWidth], " "),
		" ") && columns >= 3*LabelWidth {
		indent = LabelWidth
	}
	used, gap := 0, 0 // columns written; spaces before the next word
	for i, word := range strings.SplitAfter(units.Bind(line), " ") {
		word = units.Unbind(word)
		text := strings.TrimRight(word, " ")
		w := runewidth.StringWidth(text)
		alone := used <= indent && indent+w > columns // a line of its own would not help
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

// LabelWidth is the width of the labels of the summary, with the space after them.
const LabelWidth = 9

// Caret returns the text in which an error was found and a caret below the place, as two lines.
// It is empty if the error does not know the place.
func Caret(err error) string {
	var at interface{ Caret() string }
	if !errors.As(err, &at) {
		return ""
	}
	return "  " + strings.ReplaceAll(at.Caret(), "\n", "\n  ") + "\n"
}
