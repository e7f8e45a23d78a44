package tui

import (
	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/tui/canvas"
)

// output is the panel of what the script prints whose training is shown.
type output struct {
	lines func() []string // the newest last; at hand, it is called for each frame
	back  int             // lines scrolled back
}

func (o *output) panel() panel {
	return panel{
		key: "8", name: "output", title: "Output", hint: "output", side: true, instead: true,
		place: func(s space) place {
			if s.class == sizeCompact {
				return place{band: lowerBand}
			}
			return place{band: lastBand, rows: s.rest() / 2}
		},
		about: func(_ *view, p *canvas.Pen) { p.Text(canvas.Dim, "of the script, newest last") },
		draw:  o.draw,
		keys: []binding{
			{keys: upDownKeys, also: pageKeys, show: upDown, hint: "scroll", help: "scroll", do: func(_ *Model, key string) tea.Cmd {
				d, far := direction(key)
				o.back = max(0, o.back-d*pick(far == stridePage, 10, 1))
				return nil
			}},
			{keys: "f", hint: "expand"},
		},
	}
}

func (o *output) draw(v *view, r canvas.Rectangle) {
	lines := o.lines()
	if len(lines) == 0 {
		v.c.Text(r.X+1, r.Y, r.W-2, canvas.Dim, "it printed nothing yet")
		return
	}
	o.back = min(o.back, max(0, len(lines)-r.H))
	lines = lines[:len(lines)-o.back]
	for i, line := range lines[max(0, len(lines)-r.H):] {
		v.c.Text(r.X+1, r.Y+i, r.W-2, canvas.Normal, line)
	}
}
