package train

import (
	"slices"

	"dev.gpustall/engine/trace"
)

// publishPeriod is how often the session gets what the engine knows beside its
// spans, in ns.
const publishPeriod = 2e9

// openSegment begins the segment of the knobs in force. The memory is published
// before it starts, so that it is known from there on.
func (e *Engine) openSegment(reason string, expected trace.Prediction) {
	e.plans.Publish()
	e.ops.Begin(e.applied.TimeOps)
	e.segment = trace.Segment{
		Index: e.segment.Index, Start: e.rec.Now(), FirstStep: e.step,
		Knobs: e.applied.List(), Reason: reason, Predicted: expected,
	}
	e.rec.Segment(e.segment)
	e.noteIneffective()
}

// closeSegment ends the open segment; the next one takes the next index.
func (e *Engine) closeSegment() {
	e.endTransition()
	e.segment.End = e.rec.Now()
	e.publishNow(e.segment.End) // behind the end: the memory is the next segment's already
	e.rec.Segment(e.segment)
	e.segment.Index++
}

// noteIneffective warns of knobs in force that have no effect. A sentence that was
// true of the segment before is not said again.
func (e *Engine) noteIneffective() {
	now := KnobTable.Ineffective(e.applied, Specs(e.info))
	for _, w := range now {
		if !slices.Contains(e.ineffective, w) {
			e.rec.Note("warn", w)
		}
	}
	e.ineffective = now
}

// publish hands the session, now and then, the table of ops and the device's memory.
func (e *Engine) publish(now int64) {
	if now >= e.publishAt {
		e.publishNow(now)
	}
}

func (e *Engine) publishNow(now int64) {
	e.publishAt = now + publishPeriod
	e.ops.Publish()
	e.plans.Publish()
	e.showRate()
}
