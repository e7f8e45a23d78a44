// Package emu is an emulated accelerator, like that of MLPerf Storage and DLIO: the loading is real,
// the accelerator's time is modelled. It does no arithmetic and holds no data, so it has no loss. It
// answers whether a host could keep such an accelerator busy.
//
// A stream is a point in time, its tail. Work that is enqueued at time now starts at max(now, tail)
// and moves the tail by its modelled duration. Kernels of different streams take turns on one compute
// engine. Copies take turns on one copy engine for each direction.
package emu

import (
	"sync"
	"time"

	"dev.gpustall/engine/device"
)

// Device is an emulated accelerator. It implements device.Device, device.OpTimer and
// device.HostStreams.
type Device struct {
	preset Preset
	clock  Clock
	info   device.Info

	streams           device.Slots[device.Stream, int64] // tails
	events            device.Slots[device.Event, event]
	programs          device.Slots[device.Program, program]
	compute, h2d, d2h engine
	mem               arena
	hostMu            sync.Mutex
	host              []pinned
	late              int64 // ns that the last copy since the last Record held the caller too long
	closed            bool
}

type event struct {
	recorded   bool
	time, late int64
}

type program struct {
	ops   []time.Duration
	total time.Duration
	timed device.Timings[int64] // the clock's time at which each ends
}

var (
	_ device.Device      = (*Device)(nil)
	_ device.OpTimer     = (*Device)(nil)
	_ device.HostStreams = (*Device)(nil)
)

// New returns an accelerator with the given properties on clock.
func New(p Preset, clock Clock) *Device {
	name := "emulated " + p.Card.Name
	if p.Workload != nil {
		name += " (" + p.Workload.Name + ")"
	}
	d := &Device{preset: p, clock: clock, info: device.Info{
		Kind: "emu", Name: name, Emulated: true, Memory: p.Card.Memory, Types: p.Card.Types(), Peaks: p.Card.peaks(),
	}}
	d.mem.size = p.Card.Memory
	return d
}

// Info describes the emulated card.
func (d *Device) Info() device.Info { return d.info }

// Preset returns what the device was made from.
func (d *Device) Preset() Preset { return d.preset }

// Now returns the clock's time, on which the device's events lie.
func (d *Device) Now() int64 { return d.clock.Now() }

// NewStream returns an empty stream.
func (d *Device) NewStream(string) (device.Stream, error) {
	if d.closed {
		return 0, device.ErrClosed
	}
	return d.streams.Add(new(int64)), nil
}

func (d *Device) tail(op string, s device.Stream) (*int64, error) {
	if d.closed {
		return nil, device.ErrClosed
	}
	if tail := d.streams.At(s); tail != nil {
		return tail, nil
	}
	return nil, device.NoStream(op, s)
}

func (d *Device) event(op string, e device.Event) (*event, error) {
	if ev := d.events.At(e); ev != nil {
		return ev, nil
	}
	return nil, device.NoEvent(op, e)
}

// CopyIn models a copy to the device. From page-locked memory it returns at once. From
// other memory it holds the caller until the copy is done, as the driver does while it
// moves the bytes through its staging buffer.
func (d *Device) CopyIn(s device.Stream, dst device.Buffer, src []byte) error {
	return d.copy("copy in", s, &d.h2d, dst, src)
}

// CopyOut models a copy from the device. It leaves dst as it is.
func (d *Device) CopyOut(s device.Stream, dst []byte, src device.Buffer) error {
	return d.copy("copy out", s, &d.d2h, src, dst)
}

func (d *Device) copy(op string, s device.Stream, e *engine, b device.Buffer, host []byte) error {
	tail, err := d.tail(op, s)
	if err != nil {
		return err
	}
	if len(host) > b.Size {
		return device.TooSmall(op, len(host), b)
	}
	if !d.mem.holds(b) {
		return device.Foreign(op, b)
	}
	locked := d.isPinned(host)
	e.run(d.clock.Now(), tail, d.preset.Card.copyTime(len(host), locked))
	if !locked {
		d.clock.Sleep(*tail)
		d.late = d.clock.Now() - *tail
	}
	return nil
}

// Prepare models each launch's time. It checks the buffers as a real device does.
func (d *Device) Prepare(ls []device.Launch) (device.Program, error) {
	if d.closed {
		return 0, device.ErrClosed
	}
	p := &program{ops: make([]time.Duration, len(ls))}
	for i, l := range ls {
		t, err := d.model(l)
		if err != nil {
			return 0, device.Preparing(i, l, err)
		}
		p.ops[i] = t
		p.total += t
	}
	return d.programs.Add(p), nil
}

func (d *Device) program(op string, p device.Program) (*program, error) {
	if pr := d.programs.At(p); pr != nil {
		return pr, nil
	}
	return nil, device.NoProgram(op, p)
}

// Launch lays p's modelled time on the stream.
func (d *Device) Launch(s device.Stream, p device.Program) error {
	_, _, err := d.launch(s, p)
	return err
}

// launch returns the program and when it ends.
func (d *Device) launch(s device.Stream, p device.Program) (*program, int64, error) {
	tail, err := d.tail("launch", s)
	if err != nil {
		return nil, 0, err
	}
	pr, err := d.program("launch", p)
	if err != nil {
		return nil, 0, err
	}
	d.compute.run(d.clock.Now(), tail, pr.total)
	return pr, *tail, nil
}

// LaunchTimed lays p's modelled time on the stream, and remembers it.
func (d *Device) LaunchTimed(s device.Stream, p device.Program) (device.Timing, error) {
	pr, end, err := d.launch(s, p)
	if err != nil {
		return 0, err
	}
	ends, t := pr.timed.Next(p)
	if ends != nil {
		*ends = end
		pr.timed.Take(t)
	}
	return t, nil
}

// OpTimes appends the modelled time of each launch of t to dst[:0].
func (d *Device) OpTimes(t device.Timing, dst []time.Duration) ([]time.Duration, error) {
	dst = dst[:0]
	pr, err := d.program("op times", t.Program())
	if err != nil {
		return dst, err
	}
	end, err := pr.timed.At(t)
	if err != nil {
		return dst, err
	}
	if d.clock.Now() < *end {
		return dst, device.NotTimed()
	}
	pr.timed.Read(t)
	return append(dst, pr.ops...), nil
}

// Release gives p back.
func (d *Device) Release(p device.Program) {
	d.programs.Free(p)
}

// NewEvent returns an event that counts as completed until its first Record.
func (d *Device) NewEvent() (device.Event, error) {
	if d.closed {
		return 0, device.ErrClosed
	}
	return d.events.Add(new(event)), nil
}

// FreeEvent gives e back.
func (d *Device) FreeEvent(e device.Event) {
	d.events.Free(e)
}

// Record places e behind the work enqueued on s so far.
func (d *Device) Record(s device.Stream, e device.Event) error {
	tail, err := d.tail("record", s)
	if err != nil {
		return err
	}
	ev, err := d.event("record", e)
	if err != nil {
		return err
	}
	ev.recorded, ev.time = true, max(d.clock.Now(), *tail)
	ev.late, d.late = d.late, 0
	return nil
}

// Late returns how long the copy before e's Record held the caller after the copy's end.
func (d *Device) Late(e device.Event) time.Duration {
	ev, err := d.event("late", e)
	if err != nil {
		return 0
	}
	return time.Duration(ev.late)
}

// Wait holds later work on s back until e's latest Record.
func (d *Device) Wait(s device.Stream, e device.Event) error {
	tail, err := d.tail("wait", s)
	if err != nil {
		return err
	}
	ev, err := d.event("wait", e)
	if err != nil {
		return err
	}
	if ev.recorded {
		*tail = max(*tail, ev.time)
	}
	return nil
}

// Query reports whether the clock has reached e's latest Record.
func (d *Device) Query(e device.Event) (bool, error) {
	ev, err := d.event("query", e)
	if err != nil {
		return false, err
	}
	return !ev.recorded || d.clock.Now() >= ev.time, nil
}

// Sync sleeps until e's latest Record.
func (d *Device) Sync(e device.Event) error {
	ev, err := d.event("sync", e)
	if err != nil {
		return err
	}
	if ev.recorded {
		d.clock.Sleep(ev.time)
	}
	return nil
}

// Elapsed returns the modelled time between two Records.
func (d *Device) Elapsed(from, to device.Event) (time.Duration, error) {
	var t [2]int64
	for i, e := range [2]device.Event{from, to} {
		ev, err := d.event("elapsed", e)
		if err != nil {
			return 0, err
		}
		if !ev.recorded {
			return 0, device.NotRecorded()
		}
		if d.clock.Now() < ev.time {
			return 0, device.NotCompleted()
		}
		t[i] = ev.time
	}
	return time.Duration(t[1] - t[0]), nil
}

// Close ends the device.
func (d *Device) Close() error {
	d.closed = true
	d.hostMu.Lock()
	defer d.hostMu.Unlock()
	d.host = nil
	return nil
}
