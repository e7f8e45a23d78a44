//go:build cuda && cgo && linux

package cuda

import (
	"cmp"
	"fmt"

	"gorgonia.org/cu"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cuda/driver"
)

// program is a command buffer of resolved kernel launches. It runs in one call, or is replayed as
// a graph once it was captured.
type program struct {
	cmds   *driver.Commands
	ops    []int // commands of each launch
	list   []driver.Launch
	blocks []*block // references to the memory it uses
	graph  *driver.Graph
	timed  device.Timings[timedRun]

	variants []string // of each launch
}

// Prepare resolves each launch into kernel launches with scratch memory. It
// checks the buffers: how many, how large, how aligned, and allocated here.
func (d *Device) Prepare(ls []device.Launch) (device.Program, error) {
	if d.closed {
		return 0, device.ErrClosed
	}
	p := &program{ops: make([]int, 0, len(ls))}
	if err := d.binder().bind(p, ls); err != nil {
		p.drop(&d.mem)
		return 0, err
	}
	return d.programs.Add(p), nil
}

// drop gives back what a program holds.
func (p *program) drop(m *memory) {
	for _, b := range p.blocks {
		m.release(b)
	}
	p.blocks = nil
	p.free()
}

// free gives back what the driver and the C heap hold for p.
func (p *program) free() {
	if p.graph != nil {
		_ = p.graph.Destroy() // it is known to exist
		p.graph = nil
	}
	for r := range p.timed.All() {
		r.free()
	}
	if p.cmds != nil {
		p.cmds.Free()
		p.cmds = nil
	}
}

func (d *Device) program(op string, p device.Program) (*program, error) {
	if d.closed {
		return nil, device.ErrClosed
	}
	if pr := d.programs.At(p); pr != nil {
		return pr, nil
	}
	return nil, device.NoProgram(op, p)
}

// turnTo finds the stream and the program of a launch, and orders it after the
// launch before it.
func (d *Device) turnTo(s device.Stream, p device.Program) (st cu.Stream, pr *program, err error) {
	if st, err = d.stream("launch", s); err != nil {
		return st, nil, err
	}
	if pr, err = d.program("launch", p); err != nil {
		return st, nil, err
	}
	return st, pr, d.takeTurn(s, st)
}

// Launch enqueues all of p.
func (d *Device) Launch(s device.Stream, p device.Program) error {
	st, pr, err := d.turnTo(s, p)
	if err != nil {
		return err
	}
	return d.launch(st, pr)
}

func (d *Device) launch(st cu.Stream, pr *program) error {
	if pr.graph != nil {
		if err := d.ctx.Replay(pr.graph, st); err != nil {
			return errs.Wrap(refused(err), "launch", fmt.Sprintf("a graph of %d kernels", pr.cmds.Len()), "")
		}
		return nil
	}
	if i, err := d.ctx.Run(pr.cmds, st); err != nil {
		return errs.Wrap(refused(err), "launch", fmt.Sprintf("kernel %d of %d", i, pr.cmds.Len()), "")
	}
	return nil
}

// Release waits for the launches of p still in flight and gives it back.
func (d *Device) Release(p device.Program) {
	pr, err := d.program("release", p)
	if err != nil {
		return
	}
	_ = d.drain() // a device that failed says so at its next call
	pr.drop(&d.mem)
	d.programs.Free(p)
}

// Capture makes later launches of p replay one CUDA graph, or stop doing so.
func (d *Device) Capture(p device.Program, on bool) error {
	pr, err := d.program("capture", p)
	if err != nil || on == (pr.graph != nil) {
		return err
	}
	if !on {
		err := cmp.Or(d.drain(), pr.graph.Destroy())
		pr.graph = nil
		return refused(err)
	}
	if pr.cmds.Len() == 0 {
		return nil // there is nothing to replay
	}
	g, i, err := d.ctx.Capture(pr.cmds, d.setup)
	if err != nil {
		return errs.Wrap(refused(err), "capture", fmt.Sprintf("kernel %d of %d", i, pr.cmds.Len()), "")
	}
	pr.graph = g
	return nil
}
