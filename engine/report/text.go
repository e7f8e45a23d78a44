package report

import (
	"strconv"
	"strings"

	"dev.gpustall/engine/report/markup"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// command writes the words of a command line as a shell reads them.
func command(args []string) string {
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = markup.ShellWord(a)
	}
	return strings.Join(words, " ")
}
