package cpu

import (
	"sync/atomic"

	"dev.gpustall/engine/device"
	cpukernels "dev.gpustall/kernels/cpu"
)

// program is a list of bound kernels: everything a launch needs is resolved, so
// that running it allocates nothing.
type program struct {
	plan     *cpukernels.Plan
	blocks   []*block // references to the memory it uses
	inFlight atomic.Int64
	timed    device.Timings[timing]
}

// Prepare binds each launch to its kernel and checks its buffers: how many, how
// large, and that they are allocated here.
func (d *Device) Prepare(ls []device.Launch) (device.Program, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return 0, device.ErrClosed
	}
	if err := d.err(); err != nil {
		return 0, err
	}
	p := &program{}
	if err := p.bind(d, ls); err != nil {
		p.drop(d)
		return 0, err
	}
	return d.programs.Add(p), nil
}

func (p *program) drop(d *Device) {
	for _, k := range p.blocks {
		d.mem.release(k)
	}
	p.blocks = nil
}

// run executes the launches in order on a stream's goroutine. It notes their times in t unless t
// is nil. Programs of different streams take turns, since each uses all threads and the shared
// scratch memory.
func (p *program) run(d *Device, t *timing) {
	d.turn.Lock()
	defer d.turn.Unlock()
	defer d.watch.end(d.watch.begin())
	if t == nil {
		for i := range p.plan.Len() {
			p.plan.Run(i)
		}
		return
	}
	t.marks[0] = d.now()
	for i := range p.plan.Len() {
		p.plan.Run(i)
		t.marks[i+1] = d.now()
	}
	t.done.Store(true)
}

func (d *Device) program(op string, p device.Program) (*program, error) {
	if pr := d.programs.At(p); pr != nil {
		return pr, nil
	}
	return nil, device.NoProgram(op, p)
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
	d.programs.Free(p)
	pr.drop(d)
}
