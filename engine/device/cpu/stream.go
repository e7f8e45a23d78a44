package cpu

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/device"
)

type opcode uint8

const (
	opCopy opcode = iota
	opLaunch
	opRecord
	opWait
)

// command is one entry of a stream's queue. Which fields count depends on op.
type command struct {
	op       opcode
	dst, src []byte   // opCopy
	prog     *program // opLaunch
	timing   *timing  // opLaunch: where to note the times, or nil
	event    *event   // opRecord, opWait
	gen      int64    // of the event: which Record of it this is
	sent     int64    // ns on the device's clock
	on       *stream  // opWait: the stream to wait for
	ticket   int64    // opWait: how many commands that stream must have run
}

// stream runs commands in order on its own goroutine. The channel is the
// preallocated ring: sending a command by value allocates nothing.
type stream struct {
	name     string
	dev      *Device
	queue    chan command
	stopped  chan struct{}
	enqueued atomic.Int64 // commands sent; written by the enqueuing goroutine alone

	meter *host.Meter // nil where the host does not count how long threads wait for a core
	idle  int64       // ns on the device's clock, when the last command was finished
	late  int64       // ns that the thread waited for a core since the last Record

	done    atomic.Int64 // commands finished
	waiting atomic.Int32 // goroutines in waitFor
	mu      sync.Mutex
	ready   sync.Cond
}

// event remembers the position of its latest Record in its stream. It has completed once the
// stream has run that many commands, whatever the order in which streams reach their Records.
type event struct {
	on     *stream
	ticket int64
	gen    int64 // Records so far

	mu      sync.Mutex
	time    int64 // ns on the device's clock, of Record timeGen
	late    int64 // ns, of that Record; see device.HostStreams
	timeGen int64
}

// NewStream starts a stream.
func (d *Device) NewStream(name string) (device.Stream, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return 0, device.ErrClosed
	}
	s := &stream{name: name, dev: d, queue: make(chan command, queueDepth), stopped: make(chan struct{})}
	s.meter, _ = host.NewMeter()
	s.ready.L = &s.mu
	go s.run()
	return d.streams.Add(s), nil
}

func (s *stream) run() {
	defer close(s.stopped)
	for c := range s.queue {
		s.wokeFor(max(c.sent, s.idle))
		s.execute(&c)
		s.idle = s.dev.now()
		s.done.Add(1)
		if s.waiting.Load() > 0 {
			s.mu.Lock()
			s.mu.Unlock() //nolint:staticcheck // orders this against a waiter between its check and its Wait
			s.ready.Broadcast()
		}
	}
}

// execute runs one command. After a fault only Records and Waits still run, so that nobody waits
// for an event for ever.
func (s *stream) execute(c *command) {
	defer func() {
		if r := recover(); r != nil {
			s.dev.fail(errs.New("compute on", "the cpu device", fmt.Sprintf("a kernel of the stream %s panicked: %v\n%s", s.name, r, debug.Stack()), "run it again"))
		}
	}()
	faulted := s.dev.fault.Load() != nil
	switch c.op {
	case opCopy:
		if !faulted {
			s.copy(c.dst, c.src)
		}
	case opLaunch:
		if !faulted {
			c.prog.run(s.dev, c.timing)
		}
		c.prog.inFlight.Add(-1)
	case opRecord:
		now := s.dev.now()
		c.event.mu.Lock()
		if c.gen > c.event.timeGen {
			c.event.time, c.event.timeGen, c.event.late = now, c.gen, s.late
		}
		c.event.mu.Unlock()
		s.late = 0
	case opWait:
		before := s.dev.now()
		c.on.waitFor(c.ticket)
		c.event.mu.Lock()
		ended, same := c.event.time, c.event.timeGen == c.gen
		c.event.mu.Unlock()
		if same {
			s.wokeFor(max(ended, before))
		}
	}
}

// wokeFor notes that the stream's thread goes on, and could have since ready.
func (s *stream) wokeFor(ready int64) {
	if late := s.dev.now() - ready; late > int64(host.WakeLatency) {
		s.late += late
	}
}

// measuredCopy is the least number of bytes of a copy whose wait for a core is measured.
const measuredCopy = 64 << 10

// copy copies, and notes how long it waited for a core meanwhile.
func (s *stream) copy(dst, src []byte) {
	if s.meter == nil || len(src) < measuredCopy {
		copy(dst, src)
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, known := s.meter.Waited()
	copy(dst, src)
	if after, ok := s.meter.Waited(); ok && known {
		s.late += after - before
	}
}

// Late returns how long the thread of e's stream waited for a core since the Record before e's.
func (d *Device) Late(e device.Event) time.Duration {
	ev, err := d.event("late", e)
	if err != nil {
		return 0
	}
	ev.mu.Lock()
	defer ev.mu.Unlock()
	return time.Duration(ev.late)
}

// waitFor blocks until the stream has run ticket commands.
func (s *stream) waitFor(ticket int64) {
	if s.done.Load() >= ticket {
		return
	}
	s.waiting.Add(1)
	s.mu.Lock()
	for s.done.Load() < ticket {
		s.ready.Wait()
	}
	s.mu.Unlock()
	s.waiting.Add(-1)
}

// send enqueues c, blocking while the queue is full, and returns its position.
func (s *stream) send(c command) int64 {
	n := s.enqueued.Add(1)
	c.sent = s.dev.now()
	s.queue <- c
	return n
}

func (d *Device) stream(op string, s device.Stream) (*stream, error) {
	if err := d.err(); err != nil {
		return nil, err
	}
	if d.closed {
		return nil, device.ErrClosed
	}
	if st := d.streams.At(s); st != nil {
		return st, nil
	}
	return nil, device.NoStream(op, s)
}

func (d *Device) event(op string, e device.Event) (*event, error) {
	if ev := d.events.At(e); ev != nil {
		return ev, nil
	}
	return nil, device.NoEvent(op, e)
}

// NewEvent returns an event that counts as completed until its first Record.
func (d *Device) NewEvent() (device.Event, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return 0, device.ErrClosed
	}
	return d.events.Add(new(event)), nil
}

// FreeEvent gives the event back. Commands already enqueued keep its record.
func (d *Device) FreeEvent(e device.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events.Free(e)
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
	ev.gen++
	ev.on, ev.ticket = st, st.send(command{op: opRecord, event: ev, gen: ev.gen})
	return nil
}

// Wait holds later work on s back until e's latest Record has completed.
func (d *Device) Wait(s device.Stream, e device.Event) error {
	st, err := d.stream("wait", s)
	if err != nil {
		return err
	}
	ev, err := d.event("wait", e)
	if err != nil || ev.on == nil || ev.on == st {
		return err
	}
	st.send(command{op: opWait, on: ev.on, ticket: ev.ticket, event: ev, gen: ev.gen})
	return nil
}

// Query reports whether e's latest Record has completed. It does not block.
func (d *Device) Query(e device.Event) (bool, error) {
	ev, err := d.event("query", e)
	if err != nil {
		return false, err
	}
	if err := d.err(); err != nil {
		return false, err
	}
	return ev.on == nil || ev.on.done.Load() >= ev.ticket, nil
}

// Sync blocks until e's latest Record has completed.
func (d *Device) Sync(e device.Event) error {
	ev, err := d.event("sync", e)
	if err != nil {
		return err
	}
	if ev.on != nil {
		ev.on.waitFor(ev.ticket)
	}
	return d.err()
}

// Elapsed returns the time between two completed Records.
func (d *Device) Elapsed(from, to device.Event) (time.Duration, error) {
	a, err := d.event("elapsed", from)
	if err != nil {
		return 0, err
	}
	b, err := d.event("elapsed", to)
	if err != nil {
		return 0, err
	}
	ta, err := a.stamp()
	if err != nil {
		return 0, err
	}
	tb, err := b.stamp()
	if err != nil {
		return 0, err
	}
	return time.Duration(tb - ta), nil
}

func (e *event) stamp() (int64, error) {
	if e.on == nil {
		return 0, device.NotRecorded()
	}
	if e.on.done.Load() < e.ticket {
		return 0, device.NotCompleted()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.time, nil
}
