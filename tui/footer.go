package tui

import (
	"unicode/utf8"

	"dev.gpustall/tui/canvas"
)

// drawFooter draws the question, what is being typed, the message, or the keys that matter now.
func (m *Model) drawFooter(r canvas.Rectangle) {
	p := m.c.Pen(r.X+1, r.Y, r.W-1)
	switch {
	case m.asking:
		p.Text(canvas.WarnBold, "Quit? Training is still running and stops.  ").Text(canvas.Key, "y").Text(canvas.Normal, " quit  ").
			Text(canvas.Key, "n").Text(canvas.Normal, " stay")
		return
	case m.entry != nil:
		p.Text(canvas.Key, m.entry.prompt)
		text, keys := m.entry.text, "  enter takes it  esc drops it"
		for text != "" && canvas.Width(text) >= p.Left() { // its end is what is typed
			_, n := utf8.DecodeRuneInString(text)
			text = text[n:]
		}
		p.Text(canvas.Bold, text).Text(canvas.Cursor, " ")
		if len(keys) <= p.Left() {
			p.Text(canvas.Dim, keys)
		}
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
	// Help and quit, the last two, are always there. Before them come the keys of the
	// panel in focus, then the others, of which the first give way.
	always := 0
	for i := max(0, len(m.globals)-2); i < len(m.globals); i++ {
		always += m.hintWidth(&m.globals[i])
	}
	for i := range m.focus.keys {
		if b := &m.focus.keys[i]; m.hintWidth(b)+always <= p.Left() {
			m.drawHint(&p, b)
		}
	}
	need, skip := 0, len(m.globals)
	for i := len(m.globals) - 1; i >= 0; i-- {
		if m.told(&m.globals[i]) {
			continue
		}
		need += m.hintWidth(&m.globals[i])
		if need > p.Left()+2 {
			break
		}
		skip = i
	}
	for i := skip; i < len(m.globals); i++ {
		if !m.told(&m.globals[i]) {
			m.drawHint(&p, &m.globals[i])
		}
	}
}

// told reports whether the panel in focus has b's keys in the footer.
func (m *Model) told(b *binding) bool {
	for i := range m.focus.keys {
		if own := &m.focus.keys[i]; own.footerKey() == b.footerKey() && m.word(own) != "" {
			return true
		}
	}
	return false
}

// word is a binding's in the footer now, "" where it has none.
func (m *Model) word(b *binding) string {
	if b.when != nil && !b.when(m) {
		return ""
	}
	return pick(m.o.Replay, b.replay, b.hint)
}

func (b *binding) footerKey() string { return pick(b.show == "", b.keys, b.show) }

// hintWidth is what a binding takes in the footer, with the space after it.
func (m *Model) hintWidth(b *binding) int {
	if word := m.word(b); word != "" {
		return len(b.footerKey()) + len(word) + 3
	}
	return 0
}

func (m *Model) drawHint(p *canvas.Pen, b *binding) {
	key, word := b.footerKey(), m.word(b)
	if word == "" || p.Left() < len(key)+1+len(word) {
		return
	}
	switch key {
	case upDown:
		key = m.c.Glyphs.UpDown
	case leftRight:
		key = m.c.Glyphs.LeftRight
	}
	if b.now != nil {
		if now := b.now(m); now != "" {
			word = now
		}
	}
	p.Text(canvas.Key, key).Space(1).Text(canvas.Dim, word).Space(2)
}
