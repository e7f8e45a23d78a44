package tui

// hint is a key and a word for it in the bottom line.
type hint struct{ key, text string }

var (
	hintsKnobs = []hint{{"up/down", "select"}, {"left/right", "change"}, {"enter", "apply"}, {"esc", "drop"}, {"u", "undo"}}
	hintsTime  = []hint{{"left/right", "cursor"}, {"z Z", "zoom"}, {"[ ]", "rewind"}, {"/", "filter"}}
	hintsTable = []hint{{"up/down", "select"}, {"a", "baseline A"}}
	hintsTry   = []hint{{"enter", "stage the advice"}}
	hintsAll   = []hint{{"space", "freeze"}, {"tab", "focus"}, {"f", "expand"}, {"p", "pause"}, {"e", "export"}, {"?", "help"}, {"q", "quit"}}
	hintsFile  = []hint{{"space", "play"}, {"[ ]", "move"}, {"z Z", "zoom"}, {"tab", "focus"}, {"f", "expand"}, {"e", "export"}, {"?", "help"}, {"q", "quit"}}
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
		p.text(st, m.msg.text)
		return
	}
	var own []hint
	switch {
	case m.o.Control == nil && m.focus != paneExperiments:
	case m.focus == paneKnobs:
		own = hintsKnobs
	case m.focus == paneTimeline:
		own = hintsTime
	case m.focus == paneExperiments:
		own = hintsTable
	case m.focus == paneVerdict && m.an.verdict.Knob != "":
		own = hintsTry
	}
	for _, h := range own {
		drawHint(&p, h)
	}
	all := hintsAll
	if m.o.Replay {
		all = hintsFile
	}
	// Help and quit are always there; the others give way from the left.
	need := 0
	skip := len(all)
	for i := len(all) - 1; i >= 0; i-- {
		need += len(all[i].key) + len(all[i].text) + 3
		if need > p.left()+2 {
			break
		}
		skip = i
	}
	for _, h := range all[skip:] {
		drawHint(&p, h)
	}
}

func drawHint(p *pen, h hint) {
	n := len(h.key) + 1 + len(h.text)
	if p.left() < n {
		return
	}
	p.text(stKey, h.key).space(1).text(stDim, h.text).space(2)
}
