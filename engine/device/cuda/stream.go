//go:build cuda && cgo && linux

package cuda

import (
	"time"

	"gorgonia.org/cu"

	"dev.gpustall/engine/device"
)

// NewStream returns a stream that the others, and the default one, do not block.
func (d *Device) NewStream(name string) (device.Stream, error) {
	if d.closed {
		return 0, device.ErrClosed
	}
	err := d.ctx.Do(func() error {
		s, err := cu.MakeStream(cu.NonBlocking)
		if err == nil {
			d.streams = append(d.streams, s)
		}
		return err
	})
	if err != nil {
		return 0, refused(err)
	}
	return device.Stream(len(d.streams)), nil
}

func (d *Device) stream(op string, s device.Stream) (cu.Stream, error) {
	if d.closed {
		return cu.Stream{}, device.ErrClosed
	}
	if s < 1 || int(s) > len(d.streams) {
		return cu.Stream{}, device.NoStream(op, s)
	}
	return d.streams[s-1], nil
}

func (d *Device) event(op string, e device.Event) (*event, error) {
	if d.closed {
		return nil, device.ErrClosed
	}
	if e < 1 || int(e) > len(d.events) || !d.events[e-1].live {
		return nil, device.NoEvent(op, e)
	}
	return &d.events[e-1], nil
}

// NewEvent returns an event that counts as completed until its first Record.
func (d *Device) NewEvent() (device.Event, error) {
	if d.closed {
		return 0, device.ErrClosed
	}
	var made cu.Event
	err := d.ctx.Do(func() (err error) {
		made, err = cu.MakeEvent(cu.BlockingSyncEvent)
		return err
	})
	if err != nil {
		return 0, refused(err)
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
		return refused(err)
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
		return refused(err)
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
		return false, refused(err)
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
		return refused(err)
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
			return 0, device.NotRecorded()
		}
		done, err := d.Query(e)
		if err != nil {
			return 0, err
		}
		if !done {
			return 0, device.NotCompleted()
		}
	}
	t, err := d.ctx.Elapsed(ev[0].cu, ev[1].cu)
	return t, refused(err)
}
