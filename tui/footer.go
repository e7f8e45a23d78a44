package tui

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
func (m *Model) drawFooter(r rect) {
	p := m.c.pen(r.x+1, r.y, r.w-1)
	switch {
	case m.asking:
		p.text(stWarnBold, "Quit? Training is still running and stops.  ").text(stKey, "y").text(stNormal, " quit  ").
			text(stKey, "n").text(stNormal, " stay")
		return
	case m.msg.text != "":
		st := stNormal
		switch m.msg.level {
		case "error":
			p.text(stBadgeBad, " ! ").space(1)
			st = stBad
		case "warn":
			st = stWarn
		}
		if textWidth(m.msg.text) <= p.left() {
			p.text(st, m.msg.text)
			return
		}
		lines := wrap(m.msg.text, p.left()) // upwards from the bottom line
		m.c.fill(rect{r.x, r.y - len(lines) + 1, r.w, len(lines)}, ' ', stNormal)
		for i, line := range lines {
			y := r.y - len(lines) + 1 + i
			if i == 0 && m.msg.level == "error" {
				m.c.pen(r.x+1, y, 3).hint(stBadgeBad, " ! ")
			}
			m.c.pen(p.x, y, p.left()).hint(st, line)
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
		if hintWidth(h)+always <= p.left() {
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
		if need > p.left()+2 {
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

func (m *Model) drawHint(p *pen, h hint) {
	n := len(h.key) + 1 + len(h.text)
	if p.left() < n {
		return
	}
	key := h.key
	if !m.cs.ascii {
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
	p.text(stKey, key).space(1).text(stDim, text).space(2)
}
