package command

import (
	"strings"

	"dev.gpustall/engine/trace"
)

// foresee says in one line what may go wrong if changes were made, the gravest first.
func (r *run) foresee(changes []trace.Knob) (text string, grave bool) {
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
