package panel

import "dev.gpustall/tui/canvas"

// Story is a strip without a box under the verdict. It tells a newcomer what to do next.
type Story struct {
	Card
	text  []string
	lines []string // the text, broken for a screen of width
	width int      // 0: not broken yet
}

// NewStory makes the panel, which says nothing yet.
func NewStory() *Story { return &Story{Card: Card{Name: "guide"}} }

// Set replaces the text. Each string begins on a line of its own.
func (g *Story) Set(text []string) { g.text, g.width = text, 0 }

// Rows returns how many lines the text takes on a screen of w columns.
func (g *Story) Rows(w int) int {
	if g.width != w {
		g.width, g.lines = w, g.lines[:0]
		for _, text := range g.text {
			g.lines = append(g.lines, wrapWords(text, w-2-storyIndent)...)
		}
	}
	return len(g.lines)
}

// storyIndent is the width of the badge before the first line. The other lines begin below
// the end of the badge.
const storyIndent = 8

// Place asks for the rows that Rows returned.
func (*Story) Place(s Space) Place {
	return Pick(s.Story > 0, Place{Band: guideBand, Rows: s.Story}, Place{})
}

// Draw draws the lines that have room.
func (g *Story) Draw(v *View, r canvas.Rectangle) {
	for i, line := range g.lines[:min(len(g.lines), r.H)] {
		p := v.C.Pen(r.X+1, r.Y+i, r.W-2)
		if i == 0 {
			p.Text(canvas.Badge, " STORY ").Space(1)
		} else {
			p.Space(storyIndent)
		}
		p.Text(canvas.Bold, line)
	}
}
