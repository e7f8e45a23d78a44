//go:build cuda && cgo && linux

package cuda

import (
	"fmt"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cuda/driver"
	"dev.gpustall/kernels"
	cudakernels "dev.gpustall/kernels/cuda"
)

// binder turns the launches of the contract into launches of kernels. It finds each kernel, its
// geometry and the addresses of its arguments.
type binder struct {
	target cudakernels.Target
	code   *library
	mem    *memory
	choose func(op kernels.Op, layer string) string // the variant to run
}

func (d *Device) binder() binder { return binder{d.code.target, &d.code, &d.mem, d.tuner.choose} }

// bind resolves the launches into p, which refers to their memory from then on.
func (b binder) bind(p *program, ls []device.Launch) error {
	if err := b.mem.clearCounters(); err != nil {
		return errs.Wrap(err, "prepare", "the kernels' counters", "")
	}
	plans := make([]cudakernels.Plan, len(ls))
	scratch := 0
	for i, l := range ls {
		plan, err := b.plan(p, l)
		if err != nil {
			return device.Preparing(i, l, err)
		}
		plans[i] = plan
		scratch = max(scratch, plan.Scratch)
	}
	base, err := b.claimScratch(p, int64(scratch))
	if err != nil {
		return errs.Wrap(err, "prepare", "scratch memory", "")
	}
	for i, l := range ls {
		for j := range plans[i].Launches {
			k, err := b.resolve(&plans[i].Launches[j], l.Bufs, base)
			if err != nil {
				return device.Preparing(i, l, err)
			}
			p.list = append(p.list, k)
		}
		p.ops = append(p.ops, len(plans[i].Launches))
		p.variants = append(p.variants, b.variant(l.Op, plans[i].Config))
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
func (b binder) plan(p *program, l device.Launch) (cudakernels.Plan, error) {
	if l.Op == nil {
		return cudakernels.Plan{}, device.ErrNoOperation
	}
	op, ok := l.Op.(kernels.Op)
	if !ok || len(cudakernels.Configs(op, b.target)) == 0 {
		return cudakernels.Plan{}, errs.Reason(fmt.Sprintf("there is no kernel for %s on sm_%d", l.Op.Name(), b.target.SM), "choose another precision").Because(device.ErrUnsupported)
	}
	args := op.Args()
	if err := kernels.Check(args, len(l.Bufs), func(i int) int { return l.Bufs[i].Size }); err != nil {
		return cudakernels.Plan{}, err
	}
	for i, a := range args {
		buf := l.Bufs[i]
		align := uint64(16) // kernels move vectors of 16 bytes
		if a.Type == kernels.I32 {
			align = 4
		}
		if buf.Addr%align != 0 {
			return cudakernels.Plan{}, device.Misaligned(i, a.Name, align)
		}
		k := b.mem.find(buf)
		if k == nil {
			return cudakernels.Plan{}, fmt.Errorf("buffer %d (%s): %w", i, a.Name, device.Foreign("", buf))
		}
		k.refs++
		p.blocks = append(p.blocks, k)
	}
	return cudakernels.NewPlan(op, b.target, b.choose(op, l.Layer))
}

// resolve turns a planned kernel launch into one with a function and arguments.
func (b binder) resolve(l *cudakernels.Launch, bufs []device.Buffer, scratch uint64) (driver.Launch, error) {
	f, err := b.code.function(l.Module, l.Entry, int(l.Shared))
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
			if err := b.mem.clearCounters(); err != nil { // a trial may be the first to need them
				return driver.Launch{}, err
			}
			v += b.mem.counter.addr
		case cudakernels.Null:
			v = 0
		}
		k.Args[i] = v
	}
	return k, nil
}

// claimScratch returns the address of n bytes that programs share.
func (b binder) claimScratch(p *program, n int64) (uint64, error) {
	if n == 0 {
		return 0, nil
	}
	if err := b.mem.growScratch(n); err != nil {
		return 0, err
	}
	b.mem.scratch.refs++
	p.blocks = append(p.blocks, b.mem.scratch)
	return b.mem.scratch.addr, nil
}

// variant returns the name of the variant chosen for op, or nothing where it has only one.
func (b binder) variant(op device.Operation, config string) string {
	if o, ok := op.(kernels.Op); !ok || len(cudakernels.Configs(o, b.target)) < 2 {
		return ""
	}
	return config
}
