package cpu

import (
	"fmt"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
	cpukernels "dev.gpustall/kernels/cpu"
)

// call checks a launch's buffers and returns it on host memory. The program
// holds references to the memory from then on.
func (p *program) call(d *Device, l device.Launch) (cpukernels.Call, error) {
	if l.Op == nil {
		return cpukernels.Call{}, device.ErrNoOperation
	}
	op, ok := l.Op.(kernels.Op)
	if !ok {
		return cpukernels.Call{}, fmt.Errorf("%w: there is no kernel for %s", device.ErrUnsupported, l.Op.Name())
	}
	args := op.Args()
	if err := kernels.Check(args, len(l.Bufs), func(i int) int { return l.Bufs[i].Size }); err != nil {
		return cpukernels.Call{}, err
	}
	bufs := make([][]byte, len(args))
	for i, a := range args {
		if a.Type == kernels.F16 || a.Type == kernels.TF32 {
			return cpukernels.Call{}, fmt.Errorf("%w: buffer %d (%s) is %v and the cpu device computes in fp32 and bf16", device.ErrUnsupported, i, a.Name, a.Type)
		}
		if n := uint64(a.Type.Size()); l.Bufs[i].Addr%n != 0 {
			return cpukernels.Call{}, device.Misaligned(i, a.Name, n)
		}
		mem, k, err := d.mem.retain(l.Bufs[i])
		if err != nil {
			return cpukernels.Call{}, fmt.Errorf("buffer %d (%s): %w", i, a.Name, err)
		}
		p.blocks = append(p.blocks, k)
		bufs[i] = mem[:a.Size():a.Size()]
	}
	return cpukernels.Call{Op: op, Bufs: bufs}, nil
}

// bind checks the launches and resolves them into a plan with scratch memory.
// A kernel that panics on the way is an error.
func (p *program) bind(d *Device, ls []device.Launch) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errs.New("prepare", "a program", fmt.Sprintf("a kernel refused its arguments: %v", r), "")
		}
	}()
	calls := make([]cpukernels.Call, len(ls))
	for i, l := range ls {
		if calls[i], err = p.call(d, l); err != nil {
			return device.Preparing(i, l, err)
		}
	}
	if p.plan, err = d.pool.Prepare(calls); err != nil {
		return errs.Wrap(err, "prepare", "a program", "")
	}
	n := p.plan.Scratch()
	if n == 0 {
		return nil
	}
	if d.scratch == nil || d.scratch.size < n {
		if err := d.growScratch(n); err != nil {
			return err
		}
	}
	return p.plan.Bind(d.scratch.m.mem)
}

// growScratch replaces the scratch memory, which all programs share, by a larger block.
func (d *Device) growScratch(n int) error {
	d.turn.Lock()
	defer d.turn.Unlock()
	k, err := d.mem.newBlock(n, d.scratch)
	if err != nil {
		return err
	}
	d.scratch = k
	for q := range d.programs.All() {
		if err := q.plan.Bind(k.m.mem); err != nil {
			return errs.Wrap(err, "prepare", "scratch memory", "")
		}
	}
	return nil
}

// Overhead returns the scratch memory of the launches' kernels.
func (d *Device) Overhead(ls []device.Launch) (n int64) {
	largest := 0
	for _, l := range ls {
		if op, ok := l.Op.(kernels.Op); ok {
			for _, a := range op.Args() {
				largest = max(largest, a.Size())
			}
		}
	}
	// Binding looks at the lengths of buffers alone, so all of them can lie in the same
	// memory, of which the system never provides a page.
	mem, err := mapMemory(max(largest, 1))
	if err != nil {
		return 0 // the allocations of the same size will fail and say so
	}
	defer mem.unmap()
	defer func() {
		if recover() != nil {
			n = 0 // Prepare will say which kernel refuses its arguments
		}
	}()
	calls := make([]cpukernels.Call, 0, len(ls))
	for _, l := range ls {
		op, ok := l.Op.(kernels.Op)
		if !ok {
			continue
		}
		c := cpukernels.Call{Op: op}
		for _, a := range op.Args() {
			c.Bufs = append(c.Bufs, mem.mem[:a.Size()])
		}
		calls = append(calls, c)
	}
	p, err := d.pool.Prepare(calls)
	if err != nil {
		return 0
	}
	return int64(p.Scratch())
}
