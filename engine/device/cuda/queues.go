//go:build cuda && cgo && linux

package cuda

import (
	"cmp"
	"fmt"
	"time"

	"gorgonia.org/cu"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cuda/driver"
)

// queues are a device's streams and events. The device embeds them.
type queues struct {
	ctx     driver.Context
	setup   cu.Stream // the device's own, for clearing, trials and captures
	streams device.Slots[device.Stream, cu.Stream]
	events  device.Slots[device.Event, event]
	closed  bool

	// Programs share scratch memory and counters, so they take turns. A launch on
	// another stream than the last launch waits for that launch.
	last device.Stream
	turn cu.Event
}

type event struct {
	cu       cu.Event
	recorded bool
	done     bool // known to have completed since its latest Record
}

func (q *queues) open(ctx driver.Context) error {
	q.ctx = ctx
	return ctx.Do(func() (err error) {
		if q.setup, err = cu.MakeStream(cu.NonBlocking); err != nil {
			return err
		}
		q.turn, err = cu.MakeEvent(cu.DisableTiming)
		return err
	})
}

// close destroys all streams and events. Of several errors it returns the first. The context must
// be current.
func (q *queues) close() (err error) {
	for e := range q.events.All() {
		err = cmp.Or(err, cu.DestroyEvent(&e.cu))
	}
	err = cmp.Or(err, cu.DestroyEvent(&q.turn))
	for s := range q.streams.All() {
		err = cmp.Or(err, s.Destroy())
	}
	return cmp.Or(err, q.setup.Destroy())
}

// drain waits for all work on the GPU.
func (q *queues) drain() error { return q.ctx.Do(cu.Synchronize) }

// NewStream returns a stream that no other stream blocks, the default one included.
func (q *queues) NewStream(name string) (device.Stream, error) {
	if q.closed {
		return 0, device.ErrClosed
	}
	var made cu.Stream
	err := q.ctx.Do(func() (err error) {
		made, err = cu.MakeStream(cu.NonBlocking)
		return err
	})
	if err != nil {
		return 0, refused(err)
	}
	return q.streams.Add(&made), nil
}

func (q *queues) stream(op string, s device.Stream) (cu.Stream, error) {
	if q.closed {
		return cu.Stream{}, device.ErrClosed
	}
	if st := q.streams.At(s); st != nil {
		return *st, nil
	}
	return cu.Stream{}, device.NoStream(op, s)
}

func (q *queues) event(op string, e device.Event) (*event, error) {
	if q.closed {
		return nil, device.ErrClosed
	}
	if ev := q.events.At(e); ev != nil {
		return ev, nil
	}
	return nil, device.NoEvent(op, e)
}

// NewEvent returns an event that counts as completed until its first Record.
func (q *queues) NewEvent() (device.Event, error) {
	if q.closed {
		return 0, device.ErrClosed
	}
	made := &event{}
	err := q.ctx.Do(func() (err error) {
		made.cu, err = cu.MakeEvent(cu.BlockingSyncEvent)
		return err
	})
	if err != nil {
		return 0, refused(err)
	}
	return q.events.Add(made), nil
}

// FreeEvent gives e back. Waits already enqueued keep its Record.
func (q *queues) FreeEvent(e device.Event) {
	if ev, err := q.event("free event", e); err == nil {
		_ = q.ctx.Do(func() error { return cu.DestroyEvent(&ev.cu) }) // it is known to exist
		q.events.Free(e)
	}
}

// takeTurn orders the next launch, on stream s, after the launch before it.
func (q *queues) takeTurn(s device.Stream, st cu.Stream) error {
	if q.last == s {
		return nil
	}
	if last := q.streams.At(q.last); last != nil {
		if err := cmp.Or(q.ctx.Record(q.turn, *last), q.ctx.Wait(st, q.turn)); err != nil {
			return errs.Wrap(refused(err), "wait for", fmt.Sprintf("stream %d", q.last), "")
		}
	}
	q.last = s
	return nil
}

// Record marks the work enqueued on s so far.
func (q *queues) Record(s device.Stream, e device.Event) error {
	st, err := q.stream("record", s)
	if err != nil {
		return err
	}
	ev, err := q.event("record", e)
	if err != nil {
		return err
	}
	if err := q.ctx.Record(ev.cu, st); err != nil {
		return refused(err)
	}
	ev.recorded, ev.done = true, false
	return nil
}

// Wait holds later work on s back until e's latest Record has completed.
func (q *queues) Wait(s device.Stream, e device.Event) error {
	st, err := q.stream("wait", s)
	if err != nil {
		return err
	}
	ev, err := q.event("wait", e)
	if err != nil || !ev.recorded {
		return err
	}
	if err := q.ctx.Wait(st, ev.cu); err != nil {
		return refused(err)
	}
	return nil
}

// Query reports whether e's latest Record has completed. It does not block.
func (q *queues) Query(e device.Event) (bool, error) {
	ev, err := q.event("query", e)
	if err != nil || !ev.recorded || ev.done {
		return err == nil, err
	}
	if ev.done, err = q.ctx.Query(ev.cu); err != nil {
		return false, refused(err)
	}
	return ev.done, nil
}

// Sync blocks until e's latest Record has completed.
func (q *queues) Sync(e device.Event) error {
	ev, err := q.event("sync", e)
	if err != nil || !ev.recorded {
		return err
	}
	if err := q.ctx.Sync(ev.cu); err != nil {
		return refused(err)
	}
	ev.done = true
	return nil
}

// Elapsed returns the time between two completed Records.
func (q *queues) Elapsed(from, to device.Event) (time.Duration, error) {
	var ev [2]*event
	for i, e := range [2]device.Event{from, to} {
		var err error
		if ev[i], err = q.event("elapsed", e); err != nil {
			return 0, err
		}
		if !ev[i].recorded {
			return 0, device.NotRecorded()
		}
		done, err := q.Query(e)
		if err != nil {
			return 0, err
		}
		if !done {
			return 0, device.NotCompleted()
		}
	}
	t, err := q.ctx.Elapsed(ev[0].cu, ev[1].cu)
	return t, refused(err)
}
