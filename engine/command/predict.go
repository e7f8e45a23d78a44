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

// predict says what all knobs together would do, from the window of the session as it is.
// The engine asks whenever a change is requested, by a key, a script or a command, and
// keeps the answer with the segment that the change begins.
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

// foresee says in one line what may go wrong if changes were made, the gravest first.
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

// needs is what changes would need of the host's memory in all, in bytes, and why they
// cannot be.
func (r *run) needs(changes []knob.Setting) (host int64, refusal string) {
	text, grave := r.foresee(changes)
	if !grave {
		text = ""
	}
	return r.engine.HostNeed(changes), text
}
