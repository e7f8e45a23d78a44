package tui

import (
	"unicode/utf8"

	"dev.gpustall/tui/canvas"
	"dev.gpustall/tui/panel"
)

// footer is the bottom line of the screen.
type footer struct {
	c       *canvas.Canvas
	asking  bool          // "quit?" is on screen
	prompt  *panel.Prompt // nil while nothing is typed
	msg     *message
	own     []panel.Binding // of the panel in focus
	globals []panel.Binding
	replay  bool
}

// draw draws the question, what is being typed, the message, or the keys that matter now.
func (f *footer) draw(r canvas.Rectangle) {
	p := f.c.Pen(r.X+1, r.Y, r.W-1)
	switch {
	case f.asking:
		f.drawQuestion(&p)
		return
	case f.prompt != nil:
		f.drawPrompt(&p)
	default:
		if f.msg.text != "" {
			f.drawMessage(&p, r)
		}
		f.drawKeys(&p)
	}
}

// drawQuestion asks whether to quit, in fewer words where there is little room: the keys always have theirs.
func (f *footer) drawQuestion(p *canvas.Pen) {
	const keys = "  y quit  n stay"
	question := "Quit? Training is still running and stops."
	for _, shorter := range [...]string{"Quit? The training stops.", "Quit?"} {
		if len(question)+len(keys) > p.Left() {
			question = shorter
		}
	}
	p.Text(canvas.WarnBold, question).Text(canvas.WarnBold, "  ").Text(canvas.Key, "y").Text(canvas.Normal, " quit  ").Text(canvas.Key, "n").Text(canvas.Normal, " stay")
}

// drawPrompt draws the question and the end of what is typed.
func (f *footer) drawPrompt(p *canvas.Pen) {
	p.Text(canvas.Key, f.prompt.Question)
	text, keys := f.prompt.Text, "  enter takes it  esc drops it"
	for text != "" && canvas.Width(text) >= p.Left() {
		_, n := utf8.DecodeRuneInString(text)
		text = text[n:]
	}
	p.Text(canvas.Bold, text).Text(canvas.Cursor, " ")
	if len(keys) <= p.Left() {
		p.Text(canvas.Dim, keys)
	}
}

// drawMessage draws the message before the keys. One that leaves no room for help and quit takes lines above
// them.
func (f *footer) drawMessage(p *canvas.Pen, r canvas.Rectangle) {
	st, indent := canvas.Normal, 0
	switch f.msg.level {
	case "error":
		st, indent = canvas.Bad, 4
	case "warn":
		st = canvas.Warn
	}
	mark := func(x, y int) {
		if f.msg.level == "error" {
			f.c.Text(x, y, 3, canvas.BadgeBad, " ! ")
		}
	}
	if indent+canvas.Width(f.msg.text)+2+f.always() <= p.Left() {
		mark(p.X, r.Y)
		p.Space(indent).Text(st, f.msg.text).Space(2)
		return
	}
	lines := canvas.Wrap(f.msg.text, p.Left()-indent)
	top := r.Y - len(lines)
	f.c.Fill(canvas.Rect(r.X, top, r.W, len(lines)), ' ', canvas.Normal)
	mark(p.X, top)
	for i, line := range lines {
		f.c.Text(p.X+indent, top+i, p.Left()-indent, st, line)
	}
}

// always returns the columns of help and quit, which always have room.
func (f *footer) always() (width int) {
	for i := max(0, len(f.globals)-2); i < len(f.globals); i++ {
		width += f.hintWidth(&f.globals[i])
	}
	return width
}

// drawKeys draws the keys of the panel in focus and then those that mean the same everywhere.
// Help and quit, the last two, always have room. Of the other keys the first ones give way.
func (f *footer) drawKeys(p *canvas.Pen) {
	for i := range f.own {
		if b := &f.own[i]; f.hintWidth(b)+f.always() <= p.Left() {
			f.drawHint(p, b)
		}
	}
	need, skip := 0, len(f.globals)
	for i := len(f.globals) - 1; i >= 0; i-- {
		if f.told(&f.globals[i]) {
			continue
		}
		need += f.hintWidth(&f.globals[i])
		if need > p.Left()+2 {
			break
		}
		skip = i
	}
	for i := skip; i < len(f.globals); i++ {
		if !f.told(&f.globals[i]) {
			f.drawHint(p, &f.globals[i])
		}
	}
}

// told reports whether the footer has b's keys already, with a word of the panel in focus.
func (f *footer) told(b *panel.Binding) bool {
	for i := range f.own {
		if own := &f.own[i]; own.Label() == b.Label() && f.word(own) != "" {
			return true
		}
	}
	return false
}

// word returns the current word of a binding in the footer, or "" if it has none.
func (f *footer) word(b *panel.Binding) string {
	if b.When != nil && !b.When() {
		return ""
	}
	return panel.Pick(f.replay, b.Replay, b.Hint)
}

// hintWidth returns the columns that a binding takes in the footer, with the space after it.
func (f *footer) hintWidth(b *panel.Binding) int {
	if word := f.word(b); word != "" {
		return len(b.Label()) + len(word) + 3
	}
	return 0
}

func (f *footer) drawHint(p *canvas.Pen, b *panel.Binding) {
	key, word := b.Label(), f.word(b)
	if word == "" || p.Left() < len(key)+1+len(word) {
		return
	}
	switch key {
	case panel.UpDown:
		key = f.c.Glyphs.UpDown
	case panel.LeftRight:
		key = f.c.Glyphs.LeftRight
	}
	if b.Now != nil {
		if now := b.Now(); now != "" {
			word = now
		}
	}
	p.Text(canvas.Key, key).Space(1).Text(canvas.Dim, word).Space(2)
}
