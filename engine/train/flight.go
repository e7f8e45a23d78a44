package train

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/engine/train/ops"
	"dev.gpustall/loader"
)

// flight is a step that the device has not finished: its batch, its events and
// what the host noted of it so far. Flights live in a ring and are reused.
type flight struct {
	copyStart, copyEnd, start, end, done device.Event
	metrics                              []byte // float32 mean loss, hits, and for fp16 loss scale, skipped; page-locked

	batch    *loader.Batch // nil once released
	step     int32
	segment  int32
	seq      int32
	epoch    int32
	samples  int32
	bytes    int64
	load     int64
	work     trace.Work
	built    trace.Built
	enqueued int64 // host time before the first call
	host     int64 // ns spent enqueuing
	flags    uint16

	prog   *ops.Program
	timing device.Timing // 0 when the ops are not timed
	scaled bool          // the loss scale is read too
}

func (f *flight) prepare(dev device.Device) (err error) {
	for _, ev := range []*device.Event{&f.copyStart, &f.copyEnd, &f.start, &f.end, &f.done} {
		if *ev, err = dev.NewEvent(); err != nil {
			return err
		}
	}
	f.metrics, err = dev.AllocHost(nn.MetricsSize + nn.ScaleSize)
	return err
}

func (f *flight) close(dev device.Device) {
	for _, ev := range []device.Event{f.copyStart, f.copyEnd, f.start, f.end, f.done} {
		if ev != 0 {
			dev.FreeEvent(ev)
		}
	}
	if f.metrics != nil {
		dev.FreeHost(f.metrics)
	}
	*f = flight{}
}

func (f *flight) begin(b *loader.Batch, step, segment int32) {
	f.batch, f.step, f.segment, f.seq, f.epoch = b, step, segment, b.Seq, b.Epoch
	f.samples, f.bytes, f.load = int32(b.N), int64(len(b.Host)), b.Load
	f.work, f.built = b.Work, b.Built
}

// release gives the batch back to the loader as soon as its copy is done.
func (f *flight) release(dev device.Device) error {
	if f.batch == nil {
		return nil
	}
	ok, err := dev.Query(f.copyEnd)
	if err != nil || !ok {
		return err
	}
	f.batch.Release()
	f.batch = nil
	return nil
}

// resolve records every step that the device has finished, without waiting, and
// waits for the oldest when the host is Depth steps ahead.
func (e *Engine) resolve() error {
	for i := e.tail; i < e.head; i++ {
		if err := e.ring[i%len(e.ring)].release(e.dev); err != nil {
			return errs.Wrap(err, "query", fmt.Sprintf("the copy of step %d on %s", e.ring[i%len(e.ring)].step, e.info.Name), hintDevice)
		}
	}
	for e.tail < e.head {
		f := &e.ring[e.tail%len(e.ring)]
		ok, err := e.dev.Query(f.done)
		if err != nil {
			return errs.Wrap(err, "query", fmt.Sprintf("step %d on %s", f.step, e.info.Name), hintDevice)
		}
		if !ok {
			if e.head-e.tail < Depth {
				return nil
			}
			if err := e.sync(f); err != nil {
				return err
			}
		}
		if err := e.record(f); err != nil {
			return err
		}
		e.tail++
	}
	return nil
}

// sync waits for a step and records the wait, which the step loop spends idle.
func (e *Engine) sync(f *flight) error {
	start := e.rec.Now()
	if err := e.dev.Sync(f.done); err != nil {
		return errs.Wrap(err, "wait for", fmt.Sprintf("step %d on %s", f.step, e.info.Name), hintDevice)
	}
	done, err := e.clock.at(e.dev, f.done)
	if err != nil {
		return errs.Wrap(err, "read", fmt.Sprintf("the events of step %d", f.step), hintDevice)
	}
	e.woken(trace.KindSync, start, done, f.seq, 0)
	return nil
}

// record turns a finished step's events into spans and its step record.
func (e *Engine) record(f *flight) error {
	if err := f.release(e.dev); err != nil {
		return err
	}
	now := e.rec.Now()
	var at [4]int64
	for i, ev := range [...]device.Event{f.copyStart, f.copyEnd, f.start, f.end} {
		var err error
		if at[i], err = e.clock.at(e.dev, ev); err != nil {
			return errs.Wrap(err, "read", fmt.Sprintf("the events of step %d", f.step), hintDevice)
		}
	}
	clampToHost(&at, f.enqueued, now)
	copyStart, copyEnd, start, end := at[0], at[1], at[2], at[3]
	flags := f.flags
	if e.info.Emulated && !e.info.Computes {
		flags |= trace.FlagModelled
	}
	timed := f.timing != 0
	if timed {
		flags |= trace.FlagTimed
	}
	compute := trace.Span{
		Start: start, End: end, Step: f.step, Batch: f.seq, Kind: trace.KindCompute, Flags: flags,
	}
	if timed {
		if err := e.ops.Read(f.prog, f.timing, f.segment, compute); err != nil {
			return errs.Wrap(err, "read", fmt.Sprintf("the op times of step %d", f.step), hintDevice)
		}
		f.timing = 0
		f.host += e.rec.Now() - now
	}
	e.ops.Learn(f.prog, timed, end-start, f.host)
	e.transition.record(e.tracks.step, now)
	e.suspended.record(e.tracks.step, now)
	e.tracks.copy.Record(trace.Span{
		Start: copyStart, End: copyEnd, Step: f.step, Batch: f.seq,
		Kind: trace.KindCopy, Flags: flags, Arg: uint32(f.bytes >> 10),
	})
	e.tracks.compute.Record(compute)
	e.recordLate(f, copyStart, copyEnd, start)
	loss, correct := float32(math.NaN()), int32(-1)
	if e.info.Computes {
		loss = math.Float32frombits(binary.LittleEndian.Uint32(f.metrics))
		correct = int32(math.Float32frombits(binary.LittleEndian.Uint32(f.metrics[4:])))
		e.checkLoss(f.step, loss)
	}
	if f.scaled {
		e.scale.record(e.rec, f.step, f.metrics[nn.MetricsSize:])
	}
	e.rec.Step(trace.Step{
		Index: f.step, Epoch: f.epoch, Segment: f.segment, Batch: f.seq,
		Samples: f.samples, Correct: correct, Loss: loss, Flags: flags,
		Load: f.load, Bytes: f.bytes, Work: f.work, Built: f.built,
	})
	e.clock.event, e.clock.t = f.end, end
	return nil
}

// checkLoss notes, once a run, that the training diverged.
func (e *Engine) checkLoss(step int32, loss float32) {
	if e.diverged || !math.IsNaN(float64(loss)) && !math.IsInf(float64(loss), 0) {
		return
	}
	e.diverged = true
	e.rec.Note("warn", fmt.Sprintf("step %d: the loss is %v: the training diverged; lower the learning rate", step, loss))
}

// finish waits for the steps in flight and records them: before a change that
// touches what they use, before a pause and at the end of a run.
func (e *Engine) finish() error {
	var errs []error
	for e.tail < e.head {
		f := &e.ring[e.tail%len(e.ring)]
		err := e.sync(f)
		if err == nil {
			err = e.record(f)
		}
		if err != nil {
			errs = append(errs, err)
			if f.batch != nil {
				f.batch.Release()
				f.batch = nil
			}
		}
		e.tail++
	}
	return errors.Join(errs...)
}
