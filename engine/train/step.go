package train

import (
	"context"
	"fmt"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train/prepared"
	"dev.gpustall/kernels"
	"dev.gpustall/loader"
)

// trainStep runs one step, in the order in which the data flows.
func (e *Engine) trainStep(ctx context.Context) error {
	if err := e.boundary(ctx); err != nil {
		return err
	}
	batch, err := e.next(ctx)
	if err != nil {
		return err
	}
	if err := e.enqueue(batch); err != nil {
		return err
	}
	return e.pipeline.resolve()
}

// boundary runs what is due between two steps: evaluations, pauses and changes of knobs.
func (e *Engine) boundary(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.evaluateDue(ctx); err != nil {
		return err
	}
	if e.control.paused.Load() {
		if err := e.pause(ctx); err != nil {
			return err
		}
	}
	if e.segments.transition.active && e.segments.transition.refilled(e.loader.Stats().Ready) {
		e.segments.endTransition()
	}
	if now := e.timeline.rec.Now(); now >= e.publishAt {
		e.publish(now)
	}
	if step := e.progress.step; e.keeper.due(step) && !e.results.diverged {
		e.keeper.keep(step, e.Point)
	}
	if want := e.control.wanted.Load(); *want != e.applied {
		return e.apply(*want)
	}
	return nil
}

// pause waits until the run is to go on.
func (e *Engine) pause(ctx context.Context) error {
	if err := e.pipeline.finish(); err != nil {
		return err
	}
	rec := e.timeline.rec
	start := rec.Now()
	rec.Note("info", "paused")
	err := e.control.hold(ctx)
	e.span(trace.KindPause, start, -1, 0)
	if err == nil {
		rec.Note("info", "resumed")
	}
	return err
}

// next takes a batch. The wait for it is the data stall.
func (e *Engine) next(ctx context.Context) (*loader.Batch, error) {
	start := e.timeline.rec.Now()
	b, err := e.loader.Next(ctx)
	if err != nil {
		e.span(trace.KindNext, start, -1, 0)
		return nil, err
	}
	e.timeline.woken(trace.Span{Start: start, Step: e.progress.step, Batch: b.Seq, Kind: trace.KindNext, Flags: b.Flags}, b.Ready)
	return b, nil
}

// enqueue sends the batch to the device and the step's launches after it.
func (e *Engine) enqueue(b *loader.Batch) error {
	s, err := e.stepOf(b)
	if err != nil {
		b.Release()
		return err
	}
	f, number, rec := e.pipeline.next(), e.progress.step, e.timeline.rec
	start := rec.Now()
	f.begin(b, number, e.segments.open.Index)
	slot := s.Slot(number)
	f.prog = slot.Program(e.progress.endsUpdate(e.applied.Accumulate))
	e.starved.begin(rec, start)
	err = e.send(f, slot)
	waited := e.starved.end()
	if err != nil {
		e.pipeline.abort()
		return errs.Wrap(err, "enqueue", fmt.Sprintf("step %d on %s", number, e.info.Name), hintDevice)
	}
	f.enqueued = start
	f.flags = b.Flags | e.segments.transition.flag()
	if b.Epoch != e.progress.epoch {
		f.flags |= trace.FlagFirstOfEpoch
	}
	if b.Last {
		f.flags |= trace.FlagLastOfEpoch
	}
	e.pipeline.launched()
	now := rec.Now()
	f.host = now - start
	e.timeline.woken(trace.Span{Start: start, Step: number, Batch: b.Seq, Kind: trace.KindEnqueue, Flags: b.Flags}, now-waited)
	e.progress.advance(b, e.applied.Accumulate)
	e.segments.transition.delivered()
	return nil
}

// send enqueues the optimizer's settings, if they changed, and the step.
func (e *Engine) send(f *flight, slot *prepared.Slot) error {
	state := e.steps.State()
	if state == nil {
		return e.pipeline.send(f, slot, nil)
	}
	k := &e.applied
	if err := e.rate.set(state, e.pipeline.computeStream, e.cfg.hyper(k, &e.progress, f.batch.Epoch)); err != nil {
		return err
	}
	if changesScale := k.Precision == kernels.F16 && e.progress.endsUpdate(k.Accumulate) && e.info.Computes; !changesScale {
		state = nil
	}
	return e.pipeline.send(f, slot, state)
}

// stepOf finds the prepared step of a batch, or builds it.
func (e *Engine) stepOf(b *loader.Batch) (*prepared.Step, error) {
	key := prepared.Key{Samples: b.N, DeviceTransforms: b.Device}
	if s := e.steps.Find(key); s != nil {
		return s, nil
	}
	start := e.timeline.rec.Now()
	s, err := e.steps.Build(key)
	e.span(trace.KindRebuild, start, b.Seq, 0)
	return s, err
}

// span records what the step loop did from start until now.
func (e *Engine) span(k trace.Kind, start int64, batch int32, flags uint16) {
	e.timeline.span(trace.Span{Start: start, Step: e.progress.step, Batch: batch, Kind: k, Flags: flags})
}
