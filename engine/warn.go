package engine

import (
	"slices"

	"dev.gpustall/engine/device"
)

// warn notes what the knobs in force ask for in vain. A sentence that was true of
// the segment before is not said again.
func (e *Engine) warn() {
	_, captures := e.dev.(device.Capturer)
	now := e.applied.vain(captures)
	for _, w := range now {
		if !slices.Contains(e.warned, w) {
			e.rec.Note("warn", w)
		}
	}
	e.warned = now
}

// vain says which knobs have no effect, or less of one, because of others.
func (k Knobs) vain(captures bool) []string {
	var out []string
	if captures && k.Capture && k.TimeOps == TimeEvery {
		out = append(out, "time_ops=every times every step, so none replays the captured graph that capture=on asks for; time_ops=sampled lets the others")
	}
	if w := k.Loader.IdleStraggler(); w != "" {
		out = append(out, w)
	}
	return out
}
