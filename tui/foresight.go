package tui

import "dev.gpustall/engine/predict"

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
