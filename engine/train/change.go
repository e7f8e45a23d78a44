package train

import (
	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
	"dev.gpustall/loader"
)

// change is a change of knobs on its way into force at a step boundary.
type change struct {
	to    Knobs
	words string       // "batch_size 16 -> 128"
	start int64        // ns
	queue loader.Stats // the loader's state before the change
}

// apply puts the wanted knobs in force and opens a new segment. Knobs that turn out to be
// impossible (too little memory) are withdrawn. Then the old ones stay in force, and the
// run goes on.
func (e *Engine) apply(to Knobs) error {
	c := decide(e.applied, to, e.timeline.rec.Now(), e.loader.Stats())
	if err := e.take(&c); err != nil {
		return e.refuse(&c, err)
	}
	if err := e.put(&c); err != nil {
		return err
	}
	e.recordChange(&c)
	return nil
}

// decide says what changes between the knobs in force and others.
func decide(applied, to Knobs, now int64, queue loader.Stats) change {
	return change{to: to, words: knob.Diff(applied.List(), to.List()), start: now, queue: queue}
}

// take makes the prepared steps and the loader take what the change needs.
func (e *Engine) take(c *change) error {
	if err := e.steps.Apply(c.to.Knobs); err != nil {
		return err
	}
	return e.loader.Set(c.to.Loader)
}

// refuse withdraws a change and goes back to the knobs in force. It returns an error when
// that cannot be done, which ends the run.
func (e *Engine) refuse(c *change, why error) error {
	e.control.withdraw(c.to, e.applied, func(k Knobs) error { return k.Check(e.info) })
	e.timeline.rec.Note("error", c.words+trace.NotApplied+why.Error())
	e.span(trace.KindRebuild, c.start, -1, 0)
	if e.steps.Broken() {
		return errs.Wrap(why, "apply", c.words, hintDevice)
	}
	return errs.Wrap(e.steps.Revert(), "go back from", c.words, hintDevice)
}

// put puts the change in force, and drops what is no longer valid of the optimizer's
// state.
func (e *Engine) put(c *change) error {
	e.span(trace.KindRebuild, c.start, -1, 0)
	state := e.steps.State()
	if state != nil {
		state.Settle()
	}
	if c.to.Accumulate != e.applied.Accumulate || c.to.Precision != e.applied.Precision {
		e.progress.micro = 0
		if state != nil {
			if err := state.DropSum(); err != nil {
				return errs.Wrap(err, "clear the sum of gradients for", c.words, hintDevice)
			}
		}
	}
	if c.to.Schedule != e.applied.Schedule {
		e.progress.restartSchedule()
	}
	return nil
}

// recordChange opens the segment of the change.
func (e *Engine) recordChange(c *change) {
	from := e.applied.Knobs
	e.applied = c.to
	e.closeSegment()
	e.openSegment(c.words, e.control.take(c.to))
	e.noteRisks(from)
	e.segments.transition.begin(c.start, c.queue.Ready, c.queue.InFlight, c.to.Loader.InFlight())
}

// openSegment begins the segment of the knobs in force. The memory is published
// before it starts, so that it is known from there on.
func (e *Engine) openSegment(reason string, expected trace.Prediction) {
	e.steps.Publish()
	e.ops.Begin(e.applied.TimeOps)
	e.segments.begin(e.applied, e.progress.step, reason, expected)
}

// closeSegment ends the open segment. The memory published after its end is the next
// segment's.
func (e *Engine) closeSegment() {
	e.segments.end()
	e.publish(e.segments.open.End)
}
