package cpu

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"dev.gpustall/engine/device"
	compute "dev.gpustall/kernels/cpu"
)

// program is a list of bound kernels: everything a launch needs is resolved, so
// that running it allocates nothing.
type program struct {
	plan     *compute.Plan
	times    []opTime
	blocks   []*block // references to the memory it uses
	inFlight atomic.Int64
	timing   atomic.Bool
}

type opTime struct {
	calls atomic.Int64
	total atomic.Int64 // ns
}

var errProgram = errors.New("take one from Prepare")

// Prepare binds each launch to its kernel and checks its buffers: how many, how
// large, and that they are allocated here.
func (d *Device) Prepare(ls []device.Launch) (device.Program, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return 0, errClosed
	}
	if err := d.err(); err != nil {
		return 0, err
	}
	p := &program{times: make([]opTime, len(ls))}
	if err := p.bind(d, ls); err != nil {
		p.drop(d)
		return 0, err
	}
	for i, q := range d.programs {
		if q == nil {
			d.programs[i] = p
			return device.Program(i + 1), nil
		}
	}
	d.programs = append(d.programs, p)
	return device.Program(len(d.programs)), nil
}

func (p *program) drop(d *Device) {
	for _, k := range p.blocks {
		d.mem.release(k)
	}
	p.blocks = nil
}

// run executes the launches in order on a stream's goroutine. Programs of
// different streams take turns: each uses all threads and the shared scratch.
func (p *program) run(d *Device) {
	d.turn.Lock()
	defer d.turn.Unlock()
	if !p.timing.Load() {
		for i := range p.plan.Len() {
			p.plan.Run(i)
		}
		return
	}
	for i := range p.plan.Len() {
		t := d.now()
		p.plan.Run(i)
		p.times[i].total.Add(d.now() - t)
		p.times[i].calls.Add(1)
	}
}

func (d *Device) program(op string, p device.Program) (*program, error) {
	if p < 1 || int(p) > len(d.programs) || d.programs[p-1] == nil {
		return nil, fmt.Errorf("cpu device: %s: program %d does not exist; %w", op, p, errProgram)
	}
	return d.programs[p-1], nil
}

// Launch enqueues all of p's launches.
func (d *Device) Launch(s device.Stream, p device.Program) error {
	st, err := d.stream("launch", s)
	if err != nil {
		return err
	}
	pr, err := d.program("launch", p)
	if err != nil {
		return err
	}
	pr.inFlight.Add(1)
	st.send(command{op: opLaunch, prog: pr})
	return nil
}

// Release waits for the launches of p still in flight and gives it back.
func (d *Device) Release(p device.Program) {
	d.mu.Lock()
	defer d.mu.Unlock()
	pr, err := d.program("release", p)
	if err != nil || d.closed {
		return
	}
	if pr.inFlight.Load() > 0 {
		d.drain()
	}
	d.programs[p-1] = nil
	pr.drop(d)
}

// TimeOps turns the timing of p's launches on or off for later launches of p.
// Turning it on starts from zero.
func (d *Device) TimeOps(p device.Program, on bool) error {
	pr, err := d.program("time ops", p)
	if err != nil {
		return err
	}
	if on && !pr.timing.Load() {
		for i := range pr.times {
			pr.times[i].calls.Store(0)
			pr.times[i].total.Store(0)
		}
	}
	pr.timing.Store(on)
	return nil
}

// OpTimes appends the time and count of each launch of p to dst[:0].
func (d *Device) OpTimes(p device.Program, dst []device.OpTime) []device.OpTime {
	dst = dst[:0]
	pr, err := d.program("op times", p)
	if err != nil {
		return dst
	}
	for i := range pr.times {
		s := &pr.times[i]
		dst = append(dst, device.OpTime{Calls: s.calls.Load(), Total: time.Duration(s.total.Load())})
	}
	return dst
}
