package train

import (
	"errors"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/train/prepared"
)

// Foresee says what may go wrong if changes were set: what would refuse them, and which
// limits of the system they come near. It takes some milliseconds, changes nothing, and
// may be called from any goroutine.
func (e *Engine) Foresee(changes []knob.Setting) []prepared.Risk {
	now, k, err := e.control.with(changes)
	if err == nil {
		err = errors.Join(k.Check(e.info), k.Loader.Fits(e.cfg.samples()))
	}
	if err != nil {
		return []prepared.Risk{{Grave: true, Text: errs.Explain(err).Reason}}
	}
	l := prepared.ReadLimits()
	return e.steps.Risks(now.Knobs, k.Knobs, &l)
}

// HostNeed returns what changes would need of the host's memory in all, in bytes. It is 0
// for changes that cannot be.
func (e *Engine) HostNeed(changes []knob.Setting) int64 {
	_, k, err := e.control.with(changes)
	if err != nil {
		return 0
	}
	return e.steps.HostNeed(k.Knobs)
}

// noteRisks warns of what may end the run with the knobs in force. Smaller risks are told
// where knobs are chosen.
func (e *Engine) noteRisks(from prepared.Knobs) {
	l := prepared.ReadLimits()
	for _, r := range e.steps.Risks(from, e.applied.Knobs, &l) {
		if r.Grave {
			e.timeline.rec.Note("warn", "risk: "+r.Text)
		}
	}
}
