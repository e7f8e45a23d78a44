package command

import (
	"fmt"
	"math"

	"github.com/dustin/go-humanize"
)

// rateText is a number of samples a second as the screen and the report write it.
func rateText(v number) string {
	switch f := float64(v); {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return "-"
	case f >= 999.5:
		return humanize.Comma(int64(math.Round(f)))
	default:
		return fmt.Sprintf("%.4g", f)
	}
}

// timeText is a duration of the whole run, given in seconds: to three figures, and
// from ten minutes on as a clock has it.
func timeText(v number) string {
	switch s := float64(v); {
	case s >= 600:
		return clock(s)
	case s >= 99.95:
		return fmt.Sprintf("%.0f s", s)
	default:
		return fmt.Sprintf("%.3g s", s)
	}
}
