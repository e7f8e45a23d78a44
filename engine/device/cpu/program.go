package cpu

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"dev.gpustall/engine/device"
)

// program is a list of bound kernels: everything a launch needs is resolved, so
// that running it allocates nothing.
type program struct {
	steps    []step
	blocks   []*block // references to the memory it uses
	inFlight atomic.Int64
	timing   atomic.Bool
}

type step struct {
	run   func()
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
	p := &program{steps: make([]step, len(ls))}
	for i, l := range ls {
		if err := p.bind(d, i, l); err != nil {
			p.drop(d)
			return 0, fmt.Errorf("cpu device: prepare launch %d (%s): %w", i, describe(l), err)
		}
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

func describe(l device.Launch) string {
	if l.Op == nil {
		return "no operation"
	}
	if l.Layer == "" {
		return l.Op.Name()
	}
	return l.Op.Name() + " of " + l.Layer
}

// bind resolves launch i. A kernel that panics while it is bound is an error.
func (p *program) bind(d *Device, i int, l device.Launch) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the kernel refused its arguments: %v", r)
		}
	}()
	if l.Op == nil {
		return errors.New("a launch needs an operation")
	}
	bufs := make([][]byte, len(l.Bufs))
	for j, b := range l.Bufs {
		mem, k, err := d.mem.retain(b)
		if err != nil {
			return fmt.Errorf("buffer %d: %w", j, err)
		}
		bufs[j] = mem
		p.blocks = append(p.blocks, k)
	}
	p.steps[i].run, err = d.kernel(p, l.Op, bufs)
	return err
}

func (p *program) drop(d *Device) {
	for _, k := range p.blocks {
		d.mem.release(k)
	}
	p.blocks = nil
	p.close()
}

// run executes the launches in order on the stream's goroutine.
func (p *program) run(d *Device) {
	if !p.timing.Load() {
		for i := range p.steps {
			p.steps[i].run()
		}
		return
	}
	for i := range p.steps {
		s := &p.steps[i]
		t := d.now()
		s.run()
		s.total.Add(d.now() - t)
		s.calls.Add(1)
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
		for i := range pr.steps {
			pr.steps[i].calls.Store(0)
			pr.steps[i].total.Store(0)
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
	for i := range pr.steps {
		s := &pr.steps[i]
		dst = append(dst, device.OpTime{Calls: s.calls.Load(), Total: time.Duration(s.total.Load())})
	}
	return dst
}
