package engine

import (
	"context"
	"errors"
	"fmt"

	"dev.gpustall/engine/trace"
)

// Set asks for knob changes. They are checked together and all or none are
// taken; the engine applies them at its next step boundary and the trace
// confirms them as a new segment. It may be called from any goroutine.
func (e *Engine) Set(changes []trace.Knob) error {
	e.setMu.Lock()
	defer e.setMu.Unlock()
	k := *e.wanted.Load()
	for _, c := range changes {
		if err := k.Set(c.Name, c.Value); err != nil {
			return err
		}
	}
	if err := errors.Join(k.Check(e.info), k.Fits(e.cfg.Dataset.Info())); err != nil {
		return err
	}
	e.wanted.Store(&k)
	e.nudge()
	return nil
}

// Requested returns the knobs last asked for.
func (e *Engine) Requested() []trace.Knob { return e.wanted.Load().List() }

// Pause stops the step loop at its next boundary, or lets it go on.
func (e *Engine) Pause(on bool) {
	e.paused.Store(on)
	e.nudge()
}

// Paused reports whether a pause is asked for.
func (e *Engine) Paused() bool { return e.paused.Load() }

func (e *Engine) nudge() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// boundary is the place between two steps where pauses and changes happen.
func (e *Engine) boundary(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.paused.Load() {
		if err := e.pause(ctx); err != nil {
			return err
		}
	}
	e.change.update(e)
	e.publish(e.rec.Now())
	if want := e.wanted.Load(); *want != e.applied {
		return e.apply(*want)
	}
	return nil
}

func (e *Engine) pause(ctx context.Context) error {
	if err := e.finish(); err != nil {
		return err
	}
	start := e.rec.Now()
	e.rec.Note("info", "paused")
	for e.paused.Load() {
		select {
		case <-ctx.Done():
			e.span(trace.KindPause, start, -1, 0)
			return ctx.Err()
		case <-e.wake:
		}
	}
	e.span(trace.KindPause, start, -1, 0)
	e.rec.Note("info", "resumed")
	return nil
}

// apply puts the wanted knobs in force and opens a new segment.
func (e *Engine) apply(k Knobs) error {
	before := e.loader.Stats()
	words := diff(e.applied.List(), k.List())
	start := e.rec.Now()
	was, capture := e.plans.form, e.plans.capture
	err := e.plans.apply(k)
	if err == nil {
		err = e.loader.Set(k.Loader)
	}
	if err != nil {
		// Impossible here (too little memory): the old knobs stay in force and the run
		// goes on.
		e.withdraw(k)
		e.rec.Note("error", fmt.Sprintf("%s not applied: %v", words, err))
		e.span(trace.KindRebuild, start, -1, 0)
		if e.plans.broken {
			return fmt.Errorf("apply %s: %w", words, err)
		}
		if err := e.plans.restore(was, capture); err != nil {
			return fmt.Errorf("go back from %s: %w", words, err)
		}
		return nil
	}
	e.span(trace.KindRebuild, start, -1, 0)
	if k.Accumulate != e.applied.Accumulate || k.Precision != e.applied.Precision {
		e.micro = 0
		if e.plans.state != nil {
			if err := e.plans.state.DropSum(); err != nil {
				return fmt.Errorf("clear the sum of gradients for %s: %w", words, err)
			}
		}
	}
	e.applied = k
	e.closeSegment()
	e.openSegment(words)
	e.change.begin(e, start, before.Ready, before.InFlight)
	return nil
}

// withdraw takes the changes that led to refused out of the wanted knobs. What
// was asked for meanwhile stays wanted, where it makes sense without them.
func (e *Engine) withdraw(refused Knobs) {
	e.setMu.Lock()
	defer e.setMu.Unlock()
	k := *e.wanted.Load()
	if k == refused {
		k = e.applied
	}
	was, not, now := e.applied.List(), refused.List(), k.List()
	for i := range now {
		if not[i] != was[i] && now[i] == not[i] && k.Set(was[i].Name, was[i].Value) != nil {
			k = e.applied
			break
		}
	}
	if k == refused || k.Check(e.info) != nil {
		k = e.applied
	}
	e.wanted.Store(&k)
}

func (e *Engine) openSegment(reason string) {
	e.memory.publish(e.rec, e.dev, e.Memory().Total()) // before the segment's start, to be known from there on
	e.ops.begin(e.applied.TimeOps)
	e.segment = trace.Segment{
		Index: e.segment.Index, Start: e.rec.Now(), FirstStep: e.step,
		Knobs: e.applied.List(), Reason: reason,
	}
	e.rec.Segment(e.segment)
	e.warn()
}

// closeSegment ends the open segment; the next one takes the next index.
func (e *Engine) closeSegment() {
	e.change.end(e)
	e.segment.End = e.rec.Now()
	e.publishNow(e.segment.End) // behind the end: the memory is the next segment's already
	e.rec.Segment(e.segment)
	e.segment.Index++
}

// transition follows a knob change until the ready queue is refilled: back at
// its level before the change, or as many batches delivered as were in flight
// and as the new limit allows, for a queue that is always empty.
type transition struct {
	active    bool
	from      int64 // start of the piece not yet recorded
	ready     int   // level to reach
	remaining int   // batches to deliver at the most
	count     int   // delivered since
}

func (t *transition) begin(e *Engine, start int64, ready, inFlight int) {
	k := e.applied.Loader
	*t = transition{active: true, from: start, ready: ready,
		remaining: inFlight + max(1, k.InFlight())}
}

func (t *transition) flag() uint16 {
	if t.active {
		return trace.FlagTransition
	}
	return 0
}

func (t *transition) delivered() {
	if t.active {
		t.count++
		t.remaining--
	}
}

// update ends the transition when the queue is refilled.
func (t *transition) update(e *Engine) {
	if !t.active || t.count == 0 {
		return
	}
	if t.remaining <= 0 || e.loader.Stats().Ready >= max(1, t.ready) {
		t.end(e)
	}
}

// piece records the transition so far, so that the step about to be accounted
// for sees it.
func (t *transition) piece(e *Engine, now int64) {
	if t.active {
		e.tracks.step.Record(trace.Span{Start: t.from, End: now, Step: -1, Batch: -1, Kind: trace.KindTransition})
		t.from = now
	}
}

func (t *transition) end(e *Engine) {
	if !t.active {
		return
	}
	t.piece(e, e.rec.Now())
	t.active = false
	e.segment.TransitionSteps = int32(t.count)
	e.rec.Segment(e.segment)
}
