package cli

import (
	"io"

	"github.com/mattn/go-runewidth"
	"github.com/schollz/progressbar/v3"
)

// Progress receives how much of a long start-up is done.
type Progress func(what string, done, total int)

// ProgressTo returns a Progress that draws a bar on a terminal. On anything else it prints one
// line a task.
func ProgressTo(w io.Writer) Progress {
	var bar *progressbar.ProgressBar
	var current string
	tty := ColumnsOf(w) > 0
	return func(what string, done, total int) {
		if what != current {
			current = what
			if !tty {
				_ = Say(w, "%s …\n", what)
				return
			}
			shown, width := barOf(what, ColumnsOf(w))
			bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(shown),
				progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(width), progressbar.OptionThrottle(50e6))
		}
		if tty && bar != nil {
			_ = bar.Set(done)
			if done >= total {
				_ = bar.Finish()
			}
		}
	}
}

// barOf fits a bar into one line of a terminal. It returns the words, cut where they are too
// long, and the width of the bar.
func barOf(what string, columns int) (shown string, width int) {
	const least, most, beside = 10, 40, len(" 100% ||  [59m59s:59m59s] ")
	shown = runewidth.Truncate(what, max(0, columns-beside-least), "…")
	return shown, min(most, max(0, columns-beside-runewidth.StringWidth(shown)))
}
