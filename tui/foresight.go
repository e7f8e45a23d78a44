package tui

import (
	"slices"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/base/knob"
)

// foresight is what other settings would do.
type foresight struct {
	predicted []predict.Prediction // for a step up and down of each knob
	staged    predict.Prediction   // for what was staged on the screen, all of it together
}

// best is the better one of a knob's neighbours; nil where nothing is predicted.
func (f *foresight) best(knob string) (best *predict.Prediction) {
	for i := range f.predicted {
		if p := &f.predicted[i]; p.Changes[0].Name == knob && (best == nil || p.Rate > best.Rate) {
			best = p
		}
	}
	return best
}

// risks are what may go wrong if the staged values were applied. They are asked for off
// the screen's goroutine, once for each set of values.
type risks struct {
	of    []knob.Setting // the staged values that were asked about
	text  string         // empty where nothing is known to go wrong
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
