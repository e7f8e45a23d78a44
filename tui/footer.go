package tui

import "dev.gpustall/tui/canvas"

// hint is a key and a word for it in the bottom line.
type hint struct{ key, text string }

// Keys with arrows are written as glyphs where the terminal has them.
var (
	hintsKnobs = []hint{{"^v", "select"}, {"<>", "change"}, {"enter", "apply"}, {"esc", "drop"}, {"u", "undo"}}
	hintsTime  = []hint{{"<>", "cursor"}, {"z Z", "zoom"}, {"[ ]", "rewind"}, {"/", "filter"}}
	hintsTable = []hint{{"^v", "select"}, {"a", "baseline A"}}
	hintsOps   = []hint{{"^v", "scroll"}, {"b", "group"}, {"s", "sort"}, {"esc", "back"}, {"a", "baseline A"}}
	hintsTry   = []hint{{"enter", "stage the advice"}}
	hintsAll   = []hint{{"p", "pause"}, {"f", "expand"}, {"tab", "focus"}, {"space", "freeze"}, {"e", "export"}, {"6", "ops"}, {"?", "help"}, {"q", "quit"}}
	hintsFile  = []hint{{"<>", "cursor"}, {"z Z", "zoom"}, {"f", "expand"}, {"[ ]", "move"}, {"tab", "focus"}, {"space", "play"}, {"e", "export"}, {"6", "ops"}, {"?", "help"}, {"q", "quit"}}
)

// drawFooter draws the question, the message, or the keys that matter now.
func (m *Model) drawFooter(r canvas.Rectangle) {
	p := m.c.Pen(r.X+1, r.Y, r.W-1)
	switch {
	case m.asking:
		p.Text(canvas.WarnBold, "Quit? Training is still running and stops.  ").Text(canvas.Key, "y").Text(canvas.Normal, " quit  ").
			Text(canvas.Key, "n").Text(canvas.Normal, " stay")
		return
	case m.msg.text != "":
		st := canvas.Normal
		switch m.msg.level {
		case "error":
			p.Text(canvas.BadgeBad, " ! ").Space(1)
			st = canvas.Bad
		case "warn":
			st = canvas.Warn
		}
		if canvas.Width(m.msg.text) <= p.Left() {
			p.Text(st, m.msg.text)
			return
		}
		lines := canvas.Wrap(m.msg.text, p.Left()) // upwards from the bottom line
		m.c.Fill(canvas.Rect(r.X, r.Y-len(lines)+1, r.W, len(lines)), ' ', canvas.Normal)
		for i, line := range lines {
			y := r.Y - len(lines) + 1 + i
			if i == 0 && m.msg.level == "error" {
				m.c.Text(r.X+1, y, 3, canvas.BadgeBad, " ! ")
			}
			m.c.Text(p.X, y, p.Left(), st, line)
		}
		return
	}
	var own []hint
	switch {
	case m.o.Control == nil && m.focus != paneExperiments && m.focus != paneOps:
	case m.focus == paneKnobs:
		own = hintsKnobs
	case m.focus == paneTimeline:
		own = hintsTime
	case m.focus == paneExperiments:
		own = hintsTable
	case m.focus == paneOps:
		own = hintsOps
	case m.focus == paneVerdict && m.an.verdict.Knob != "":
		own = hintsTry
	}
	all := hintsAll
	if m.o.Replay {
		all = hintsFile
	}
	always := hintWidth(all[len(all)-2]) + hintWidth(all[len(all)-1])
	for _, h := range own {
		if hintWidth(h)+always <= p.Left() {
			m.drawHint(&p, h)
		}
	}
	// Help and quit are always there; the others give way from the left.
	need := 0
	skip := len(all)
	for i := len(all) - 1; i >= 0; i-- {
		if m.focus == paneOps && all[i].key == "6" { // they are there
			continue
		}
		need += hintWidth(all[i])
		if need > p.Left()+2 {
			break
		}
		skip = i
	}
	for _, h := range all[skip:] {
		if m.focus != paneOps || h.key != "6" {
			m.drawHint(&p, h)
		}
	}
}

// hintWidth is what a hint takes, with the space after it.
func hintWidth(h hint) int { return len(h.key) + len(h.text) + 3 }

func (m *Model) drawHint(p *canvas.Pen, h hint) {
	n := len(h.key) + 1 + len(h.text)
	if p.Left() < n {
		return
	}
	key := h.key
	if !m.c.Glyphs.ASCII {
		switch key {
		case "^v":
			key = "↑↓"
		case "<>":
			key = "←→"
		}
	}
	text := h.text
	switch {
	case text == "pause" && m.paused:
		text = "resume"
	case text == "freeze" && m.frozen:
		text = "go on"
	case text == "play" && m.play:
		text = "stop"
	}
	p.Text(canvas.Key, key).Space(1).Text(canvas.Dim, text).Space(2)
}
