package train

import (
	"context"
	"fmt"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/engine/train/plan"
	"dev.gpustall/kernels"
	"dev.gpustall/loader"
)

// trainStep is one step, in the order in which the data flows.
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
	return e.resolve()
}

// next takes a batch; the wait here is the data stall.
func (e *Engine) next(ctx context.Context) (*loader.Batch, error) {
	start := e.rec.Now()
	b, err := e.loader.Next(ctx)
	if err != nil {
		e.span(trace.KindNext, start, -1, 0)
		return nil, err
	}
	e.woken(trace.KindNext, start, b.Ready, b.Seq, b.Flags)
	return b, nil
}

// enqueue sends the batch to the device and the step's launches after it.
func (e *Engine) enqueue(b *loader.Batch) error {
	p, err := e.planOf(b)
	if err != nil {
		b.Release()
		return err
	}
	f := &e.ring[e.head%len(e.ring)]
	start := e.rec.Now()
	f.begin(b, e.step, e.segment.Index)
	slot := p.Slot(e.step)
	f.prog = slot.Program(e.micro+1 == e.applied.Accumulate)
	e.starved.begin(e.rec, start)
	err = e.send(f, slot)
	waited := e.starved.end()
	if err != nil {
		e.abort()
		return errs.Wrap(err, "enqueue", fmt.Sprintf("step %d on %s", e.step, e.info.Name), hintDevice)
	}
	f.enqueued = start
	f.flags = b.Flags | e.transition.flag()
	if b.Epoch != e.epoch {
		f.flags |= trace.FlagFirstOfEpoch
	}
	e.epoch = b.Epoch
	if b.Last {
		f.flags |= trace.FlagLastOfEpoch
		e.epochEnded = true
	}
	e.head++
	now := e.rec.Now()
	f.host = now - start
	e.woken(trace.KindEnqueue, start, now-waited, b.Seq, b.Flags)
	e.step++
	if e.micro = (e.micro + 1) % e.applied.Accumulate; e.micro == 0 {
		e.pace.Updates++
	}
	e.transition.delivered()
	return nil
}

// planOf finds the plan of a batch, or builds it.
func (e *Engine) planOf(b *loader.Batch) (*plan.Plan, error) {
	key := plan.Key{Samples: b.N, DeviceTransforms: b.Device}
	if p := e.plans.Find(key); p != nil {
		return p, nil
	}
	start := e.rec.Now()
	p, err := e.plans.Build(key)
	e.span(trace.KindRebuild, start, b.Seq, 0)
	return p, err
}

// send makes the step's calls of the device, in their order. It stops at the
// first that fails: a later one could run on data that is not there.
func (e *Engine) send(f *flight, slot *plan.Slot) error {
	if err := e.setHyper(f.batch.Epoch); err != nil {
		return err
	}
	if err := e.copyIn(f, slot.Input); err != nil {
		return err
	}
	if err := e.compute(f); err != nil {
		return err
	}
	if err := slot.ReadMetrics(e.dev, e.computeStream, f.metrics); err != nil {
		return err
	}
	if err := e.readScale(f); err != nil {
		return err
	}
	return e.dev.Record(e.computeStream, f.done)
}

// copyIn enqueues the copy of the batch to its input slot.
func (e *Engine) copyIn(f *flight, input device.Buffer) error {
	if e.head >= plan.Slots { // an earlier step reads the same slot
		earlier := &e.ring[(e.head-plan.Slots)%len(e.ring)]
		if err := e.dev.Wait(e.copyStream, earlier.end); err != nil {
			return err
		}
	}
	if err := e.dev.Record(e.copyStream, f.copyStart); err != nil {
		return err
	}
	if err := e.dev.CopyIn(e.copyStream, input, f.batch.Host); err != nil {
		return err
	}
	return e.dev.Record(e.copyStream, f.copyEnd)
}

// compute enqueues the step's program, behind the copy of its batch.
func (e *Engine) compute(f *flight) (err error) {
	if err = e.dev.Wait(e.computeStream, f.copyEnd); err != nil {
		return err
	}
	if err = e.dev.Record(e.computeStream, f.start); err != nil {
		return err
	}
	if f.timing, err = e.ops.Launch(e.computeStream, f.prog); err != nil {
		return err
	}
	return e.dev.Record(e.computeStream, f.end)
}

// readScale enqueues the copy of fp16's loss scale to the host, after an update.
func (e *Engine) readScale(f *flight) error {
	f.scaled = e.applied.Precision == kernels.F16 && e.micro+1 == e.applied.Accumulate && e.plans.State() != nil && e.info.Computes
	if !f.scaled {
		return nil
	}
	return e.plans.State().ReadScale(e.computeStream, f.metrics[nn.MetricsSize:])
}

// abort gives up a step that was enqueued in part. It waits until neither stream has
// any work of it left; then the batch and the device's memory may be freed.
func (e *Engine) abort() {
	f := &e.ring[e.head%len(e.ring)]
	for _, s := range [...]device.Stream{e.copyStream, e.computeStream} {
		if e.dev.Record(s, f.done) == nil {
			_ = e.dev.Sync(f.done) // the error that led here is the one to tell
		}
	}
	if f.batch != nil {
		f.batch.Release()
		f.batch = nil
	}
}

// span records what the step loop did from start until now, and returns how long
// that was, in ns.
func (e *Engine) span(k trace.Kind, start int64, batch int32, flags uint16) int64 {
	now := e.rec.Now()
	e.tracks.step.Record(trace.Span{Start: start, End: now, Step: e.step, Batch: batch, Kind: k, Flags: flags})
	return now - start
}
