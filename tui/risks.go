package tui

import (
	"slices"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/trace"
)

// risks are what may go wrong if the staged values were applied. They are asked for off
// the screen's goroutine, once for each set of values.
type risks struct {
	of    []trace.Knob // the staged values that were asked about
	text  string       // empty where nothing is known to go wrong
	grave bool
}

// foreseen is the answer about some values.
type foreseen struct{ risks }

// foresee asks about the staged values when they are others than before.
func (m *Model) foresee() tea.Cmd {
	k, ask := &m.knobs, m.o.Foresee
	staged := k.changes()
	if ask == nil || slices.Equal(staged, k.risks.of) {
		return nil
	}
	k.risks = risks{of: staged}
	if len(staged) == 0 {
		return nil
	}
	return func() tea.Msg {
		f := foreseen{risks{of: staged}}
		if err := guard("look ahead", func() error { f.text, f.grave = ask(staged); return nil }); err != nil {
			f.text = err.Error()
		}
		return f
	}
}

// take keeps an answer, unless other values are staged by now.
func (r *risks) take(f foreseen) {
	if slices.Equal(f.of, r.of) {
		*r = f.risks
	}
}
