package script

import (
	"os"
	"strings"

	"dev.gpustall/engine/command/cli"
)

// Beside writes to a terminal on which a script prints too. The cursor may stand behind a
// progress bar, which has no newline. So each write begins with enough spaces to fill all columns
// of a line but one, and a carriage return. Behind a bar they wrap to the next line, and on an
// empty line they stay there: nothing is overwritten, and no line is left empty.
type Beside struct{ file *os.File }

// NewBeside returns a Beside that writes to f.
func NewBeside(f *os.File) Beside { return Beside{f} }

// Fd tells cli.Say the width of the terminal.
func (b Beside) Fd() uintptr { return b.file.Fd() }

func (b Beside) Write(text []byte) (int, error) {
	lead := fresh(cli.ColumnsOf(b.file))
	n, err := b.file.Write(append([]byte(lead), text...))
	return max(0, n-len(lead)), err
}

// fresh returns the spaces that lead to the beginning of a line. It is empty if there is no
// terminal.
func fresh(columns int) string {
	if columns < 2 {
		return ""
	}
	return strings.Repeat(" ", columns-1) + "\r"
}
