package tui

// message is the line of feedback. It is shown for about five seconds. An error is shown until
// a key is pressed.
type message struct {
	text  string
	level string // "info", "warn", "error"
	ticks int    // left until it is removed, 0 for never; the session's clock may stand still
}

// set shows a text, at fps ticks a second.
func (g *message) set(level, text string, fps int) {
	*g = message{text: text, level: level, ticks: 5 * fps}
	if level == "error" {
		g.ticks = 0
	}
}

// clear removes the text.
func (g *message) clear() { *g = message{} }

// tick counts a tick, and reports whether the text was removed.
func (g *message) tick() (removed bool) {
	if g.ticks == 0 {
		return false
	}
	if g.ticks--; g.ticks > 0 {
		return false
	}
	g.clear()
	return true
}
