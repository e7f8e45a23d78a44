//go:build cuda && cgo && linux

package cuda

import (
	"fmt"
	"time"

	"gorgonia.org/cu"

	"dev.gpustall/engine/device"
)

// NewStream returns a stream that the others, and the default one, do not block.
func (d *Device) NewStream(name string) (device.Stream, error) {
	if d.closed {
		return 0, errClosed
	}
	err := d.ctx.Do(func() error {
		s, err := cu.MakeStream(cu.NonBlocking)
		if err == nil {
			d.streams = append(d.streams, s)
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("cuda device: create stream %q: %w", name, err)
	}
	return device.Stream(len(d.streams)), nil
}

func (d *Device) stream(op string, s device.Stream) (cu.Stream, error) {
	if d.closed {
		return cu.Stream{}, errClosed
	}
	if s < 1 || int(s) > len(d.streams) {
		return cu.Stream{}, fmt.Errorf("cuda device: %s: stream %d does not exist; take one from NewStream", op, s)
	}
	return d.streams[s-1], nil
}

func (d *Device) event(op string, e device.Event) (*event, error) {
	if d.closed {
		return nil, errClosed
	}
	if e < 1 || int(e) > len(d.events) || !d.events[e-1].live {
		return nil, fmt.Errorf("cuda device: %s: event %d does not exist; take one from NewEvent", op, e)
	}
	return &d.events[e-1], nil
}

// NewEvent returns an event that counts as completed until its first Record.
func (d *Device) NewEvent() (device.Event, error) {
	if d.closed {
		return 0, errClosed
	}
	var made cu.Event
	err := d.ctx.Do(func() (err error) {
		made, err = cu.MakeEvent(cu.BlockingSyncEvent)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("cuda device: create event: %w", err)
	}
	for i := range d.events {
		if !d.events[i].live {
			d.events[i] = event{cu: made, live: true}
			return device.Event(i + 1), nil
		}
	}
	d.events = append(d.events, event{cu: made, live: true})
	return device.Event(len(d.events)), nil
}

// FreeEvent gives e back. Waits already enqueued keep its Record.
func (d *Device) FreeEvent(e device.Event) {
	if ev, err := d.event("free event", e); err == nil {
		_ = d.ctx.Do(func() error { return cu.DestroyEvent(&ev.cu) }) // it is known to exist
		*ev = event{}
	}
}

// Record marks the work enqueued on s so far.
func (d *Device) Record(s device.Stream, e device.Event) error {
	st, err := d.stream("record", s)
	if err != nil {
		return err
	}
	ev, err := d.event("record", e)
	if err != nil {
		return err
	}
	if err := d.ctx.Record(ev.cu, st); err != nil {
		return fmt.Errorf("cuda device: record: %w", err)
	}
	ev.recorded, ev.done = true, false
	return nil
}

// Wait holds later work on s back until e's latest Record has completed.
func (d *Device) Wait(s device.Stream, e device.Event) error {
	st, err := d.stream("wait", s)
	if err != nil {
		return err
	}
	ev, err := d.event("wait", e)
	if err != nil || !ev.recorded {
		return err
	}
	if err := d.ctx.Wait(st, ev.cu); err != nil {
		return fmt.Errorf("cuda device: wait: %w", err)
	}
	return nil
}

// Query reports whether e's latest Record has completed. It does not block.
func (d *Device) Query(e device.Event) (bool, error) {
	ev, err := d.event("query", e)
	if err != nil || !ev.recorded || ev.done {
		return err == nil, err
	}
	if ev.done, err = d.ctx.Query(ev.cu); err != nil {
		return false, fmt.Errorf("cuda device: query: %w", err)
	}
	return ev.done, nil
}

// Sync blocks until e's latest Record has completed.
func (d *Device) Sync(e device.Event) error {
	ev, err := d.event("sync", e)
	if err != nil || !ev.recorded {
		return err
	}
	if err := d.ctx.Sync(ev.cu); err != nil {
		return fmt.Errorf("cuda device: sync: %w", err)
	}
	ev.done = true
	return nil
}

// Elapsed returns the time between two completed Records.
func (d *Device) Elapsed(from, to device.Event) (time.Duration, error) {
	var ev [2]*event
	for i, e := range [2]device.Event{from, to} {
		var err error
		if ev[i], err = d.event("elapsed", e); err != nil {
			return 0, err
		}
		if !ev[i].recorded {
			return 0, fmt.Errorf("cuda device: elapsed: %w: the event was never recorded", device.ErrNotReady)
		}
		done, err := d.Query(e)
		if err != nil {
			return 0, err
		}
		if !done {
			return 0, fmt.Errorf("cuda device: elapsed: %w: the event's Record has not completed; Query or Sync it first", device.ErrNotReady)
		}
	}
	t, err := d.ctx.Elapsed(ev[0].cu, ev[1].cu)
	if err != nil {
		return 0, fmt.Errorf("cuda device: elapsed: %w", err)
	}
	return t, nil
}
