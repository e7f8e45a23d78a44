package panel

import "dev.gpustall/tui/canvas"

// Output is the panel of what the training's script prints.
type Output struct {
	Card
	lines func() []string // the newest last; it is called for each frame and must not wait
	back  int             // lines scrolled back
}

// NewOutput makes the panel.
func NewOutput(lines func() []string) *Output {
	o := &Output{Card: Card{Key: "8", Name: "output", Title: "Output", Hint: "output", Side: true, Instead: true}, lines: lines}
	o.Keys = []Binding{
		scrollKeys(func(lines int) { o.back = max(0, o.back-lines) }),
		{Keys: "f", Hint: "expand"},
	}
	return o
}

// Place asks for half of the screen, instead of the other side panels.
func (*Output) Place(s Space) Place { return placeInstead(s) }

// Draw draws the last lines that have room.
func (o *Output) Draw(v *View, r canvas.Rectangle) {
	v.Head.Text(canvas.Dim, "of the script, newest last")
	lines := o.lines()
	if len(lines) == 0 {
		v.C.Text(r.X+1, r.Y, r.W-2, canvas.Dim, "it printed nothing yet")
		return
	}
	o.back = min(o.back, max(0, len(lines)-r.H))
	lines = lines[:len(lines)-o.back]
	for i, line := range lines[max(0, len(lines)-r.H):] {
		v.C.Text(r.X+1, r.Y+i, r.W-2, canvas.Normal, line)
	}
}
