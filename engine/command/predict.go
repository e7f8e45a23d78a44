package command

import (
	"strings"

	"dev.gpustall/engine/base/knob"
)

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
