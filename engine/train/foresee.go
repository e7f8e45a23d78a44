package train

import (
	"errors"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/train/plan"
)

// Foresee says what may go wrong if changes were set: what refuses them, or what the
// system's limits make of them. It takes some milliseconds, changes nothing, and may be
// called from any goroutine.
func (e *Engine) Foresee(changes []knob.Setting) []plan.Risk {
	now := *e.wanted.Load()
	k := now
	for _, c := range changes {
		if err := k.Set(c.Name, c.Value); err != nil {
			return []plan.Risk{{Grave: true, Text: errs.Explain(err).Reason}}
		}
	}
	if err := errors.Join(k.Check(e.info), k.Loader.Fits(e.samples())); err != nil {
		return []plan.Risk{{Grave: true, Text: errs.Explain(err).Reason}}
	}
	l := plan.ReadLimits()
	return e.plans.Risks(now.Knobs, k.Knobs, &l)
}

// HostNeed is what changes would need of the host's memory in all, in bytes; 0 where they
// cannot be.
func (e *Engine) HostNeed(changes []knob.Setting) int64 {
	k := *e.wanted.Load()
	for _, c := range changes {
		if k.Set(c.Name, c.Value) != nil {
			return 0
		}
	}
	return e.plans.HostNeed(k.Knobs)
}

// noteRisks warns of what may go wrong with the knobs in force, where it would end the
// run; other risks are told where knobs are chosen.
func (e *Engine) noteRisks(from plan.Knobs) {
	l := plan.ReadLimits()
	for _, r := range e.plans.Risks(from, e.applied.Knobs, &l) {
		if r.Grave {
			e.rec.Note("warn", "risk: "+r.Text)
		}
	}
}
