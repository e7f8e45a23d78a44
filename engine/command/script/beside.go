package script

import (
	"os"
	"strings"

	"dev.gpustall/engine/command/cli"
)

// Beside writes to a terminal on which a script prints too, and may stand behind what is no
// line yet: a progress bar. Spaces for one line but a column go on to the next line there, and
// stay on a line that is empty, so that nothing is overwritten and no line is left out.
type Beside struct{ file *os.File }

func NewBeside(f *os.File) Beside { return Beside{f} }

// Fd makes the terminal's width known to say.
func (b Beside) Fd() uintptr { return b.file.Fd() }

func (b Beside) Write(text []byte) (int, error) {
	lead := fresh(cli.ColumnsOf(b.file))
	n, err := b.file.Write(append([]byte(lead), text...))
	return max(0, n-len(lead)), err
}

// fresh is what leads to the beginning of a line of its own on a terminal so wide; nothing on
// none.
func fresh(columns int) string {
	if columns < 2 {
		return ""
	}
	return strings.Repeat(" ", columns-1) + "\r"
}
