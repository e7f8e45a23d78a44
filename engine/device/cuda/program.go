//go:build cuda && cgo && linux

package cuda

import (
	"cmp"
	"fmt"

	"gorgonia.org/cu"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cuda/driver"
	"dev.gpustall/kernels"
	cudakernels "dev.gpustall/kernels/cuda"
)

// program is a command buffer of resolved kernel launches, run in one call, or
// replayed as a graph once captured.
type program struct {
	cmds   *driver.Commands
	ops    []int // commands of each launch
	list   []driver.Launch
	blocks []*block // references to the memory it uses
	graph  *driver.Graph
	timed  [device.TimedRuns]*timedRun // made when they are first needed

	variants []string // of each launch
}

// Prepare resolves each launch into kernel launches with scratch memory. It
// checks the buffers: how many, how large, how aligned, and allocated here.
func (d *Device) Prepare(ls []device.Launch) (device.Program, error) {
	if d.closed {
		return 0, device.ErrClosed
	}
	p := &program{ops: make([]int, 0, len(ls))}
	err := d.build(p, ls)
	if err != nil {
		d.drop(p)
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

func (d *Device) build(p *program, ls []device.Launch) error {
	if err := d.clearCounters(); err != nil {
		return errs.Wrap(err, "prepare", "the kernels' counters", "")
	}
	plans := make([]cudakernels.Plan, len(ls))
	scratch := 0
	for i, l := range ls {
		plan, err := d.plan(p, l)
		if err != nil {
			return device.Preparing(i, l, err)
		}
		plans[i] = plan
		scratch = max(scratch, plan.Scratch)
	}
	base, err := d.claimScratch(p, int64(scratch))
	if err != nil {
		return errs.Wrap(err, "prepare", "scratch memory", "")
	}
	for i, l := range ls {
		for j := range plans[i].Launches {
			k, err := d.resolve(&plans[i].Launches[j], l.Bufs, base)
			if err != nil {
				return device.Preparing(i, l, err)
			}
			p.list = append(p.list, k)
		}
		p.ops = append(p.ops, len(plans[i].Launches))
		p.variants = append(p.variants, d.variant(l.Op, plans[i].Config))
	}
	if p.cmds, err = driver.NewCommands(len(p.list)); err != nil {
		return errs.Wrap(err, "prepare", "a program", "")
	}
	for i := range p.list {
		if err := p.cmds.Launch(&p.list[i]); err != nil {
			return errs.Wrap(err, "prepare", "a program", "")
		}
	}
	return nil
}

// plan checks a launch and asks package kernels how it runs here.
func (d *Device) plan(p *program, l device.Launch) (cudakernels.Plan, error) {
	if l.Op == nil {
		return cudakernels.Plan{}, device.ErrNoOperation
	}
	op, ok := l.Op.(kernels.Op)
	if !ok || len(cudakernels.Configs(op, d.target)) == 0 {
		return cudakernels.Plan{}, errs.Reason(fmt.Sprintf("there is no kernel for %s on sm_%d", l.Op.Name(), d.target.SM), "choose another precision").Because(device.ErrUnsupported)
	}
	args := op.Args()
	if err := kernels.Check(args, len(l.Bufs), func(i int) int { return l.Bufs[i].Size }); err != nil {
		return cudakernels.Plan{}, err
	}
	for i, a := range args {
		b := l.Bufs[i]
		align := uint64(16) // kernels move vectors of 16 bytes
		if a.Type == kernels.I32 {
			align = 4
		}
		if b.Addr%align != 0 {
			return cudakernels.Plan{}, device.Misaligned(i, a.Name, align)
		}
		k := d.mem.find(b)
		if k == nil {
			return cudakernels.Plan{}, fmt.Errorf("buffer %d (%s): %w", i, a.Name, device.Foreign("", b))
		}
		k.refs++
		p.blocks = append(p.blocks, k)
	}
	return cudakernels.NewPlan(op, d.target, d.choose(op, l.Layer))
}

// resolve turns a planned kernel launch into one with a function and arguments.
func (d *Device) resolve(l *cudakernels.Launch, bufs []device.Buffer, scratch uint64) (driver.Launch, error) {
	f, err := d.function(l.Module, l.Entry, int(l.Shared))
	if err != nil {
		return driver.Launch{}, err
	}
	k := driver.Launch{Function: f, Grid: l.Grid, Block: l.Block, Shared: l.Shared, Args: make([]uint64, len(l.Args))}
	for i, a := range l.Args {
		v := a.Value
		switch a.Kind {
		case cudakernels.Buffer:
			if int(a.Index) >= len(bufs) {
				return driver.Launch{}, fmt.Errorf("%s: argument %d is buffer %d of %d", l.Entry, i, a.Index, len(bufs))
			}
			v += bufs[a.Index].Addr
		case cudakernels.Scratch:
			v += scratch
		case cudakernels.Counter:
			if err := d.clearCounters(); err != nil { // a trial may be the first to need them
				return driver.Launch{}, err
			}
			v += d.counter.addr
		case cudakernels.Null:
			v = 0
		}
		k.Args[i] = v
	}
	return k, nil
}

// drop gives back what a program holds.
func (d *Device) drop(p *program) {
	for _, b := range p.blocks {
		d.mem.release(b)
	}
	p.blocks = nil
	p.free()
}

// free gives back what lies with the driver and on the C heap.
func (p *program) free() {
	if p.graph != nil {
		_ = p.graph.Destroy() // it is known to exist
		p.graph = nil
	}
	for i, r := range p.timed {
		if r != nil {
			r.free()
			p.timed[i] = nil
		}
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
	if p < 1 || int(p) > len(d.programs) || d.programs[p-1] == nil {
		return nil, device.NoProgram(op, p)
	}
	return d.programs[p-1], nil
}

// turnTo finds the stream and the program of a launch, and orders it after the
// launch before it.
func (d *Device) turnTo(s device.Stream, p device.Program) (st cu.Stream, pr *program, err error) {
	if st, err = d.stream("launch", s); err != nil {
		return st, nil, err
	}
	if pr, err = d.program("launch", p); err != nil || d.last == s {
		return st, pr, err
	}
	if d.last != 0 {
		if err := cmp.Or(d.ctx.Record(d.turn, d.streams[d.last-1]), d.ctx.Wait(st, d.turn)); err != nil {
			return st, nil, errs.Wrap(refused(err), "wait for", fmt.Sprintf("stream %d", d.last), "")
		}
	}
	d.last = s
	return st, pr, nil
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
	d.drop(pr)
	d.programs[p-1] = nil
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
		return nil // an empty graph is not worth a replay
	}
	g, i, err := d.ctx.Capture(pr.cmds, d.setup)
	if err != nil {
		return errs.Wrap(refused(err), "capture", fmt.Sprintf("kernel %d of %d", i, pr.cmds.Len()), "")
	}
	pr.graph = g
	return nil
}
