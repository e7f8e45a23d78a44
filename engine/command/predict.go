package command

import (
	"strings"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/command/watch"
	"dev.gpustall/engine/trace"
)

// predict predicts what the run would do with these knobs, from the last window of the session.
// The engine calls it for each change, by a key, a script or a command, and keeps the answer with
// the segment that the change begins.
func (r *run) predict(to []knob.Setting) (p trace.Prediction) {
	defer watch.Recover(r.recorder, "predict a change")
	s := r.session.Snapshot(0, 0)
	t := trace.Count(attribution.Window(s))
	if t.Steady.Steps == 0 || len(s.Segments) == 0 {
		return p
	}
	s = r.session.Snapshot(t.From, t.To)
	m, ok := predict.Fit(s, t, attribution.Segments(s))
	if !ok {
		return p
	}
	made, ok := m.Predict(advice.Chosen(s.Segments[len(s.Segments)-1].Knobs, to)...)
	if !ok {
		return trace.Prediction{}
	}
	return made.Prediction
}

// foresee says in one line what may go wrong with changes, the gravest first.
func (r *run) foresee(changes []knob.Setting) (text string, grave bool) {
	var first, then []string
	for _, risk := range r.engine.Foresee(changes) {
		if risk.Grave {
			first = append(first, risk.Text)
		} else {
			then = append(then, risk.Text)
		}
	}
	return strings.Join(append(first, then...), "; "), len(first) > 0
}

// needs returns how many bytes of host memory the run would need after changes, and why they are
// refused if they are.
func (r *run) needs(changes []knob.Setting) (host int64, refusal string) {
	text, grave := r.foresee(changes)
	if !grave {
		text = ""
	}
	return r.engine.HostNeed(changes), text
}
