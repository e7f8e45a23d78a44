//go:build cuda && cgo && linux

package cuda

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"gorgonia.org/cu"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cuda/driver"
	"dev.gpustall/kernels"
)

// choose returns the variant of op to run: the stored one, or the one that is
// fastest on this GPU now, or "" for the likeliest. bufs are op's buffers; they
// are read and not written.
func (d *Device) choose(op kernels.Op, bufs []device.Buffer) string {
	if d.pick != nil {
		return d.pick(op)
	}
	configs := kernels.CUDAConfigs(op, d.target)
	if d.choices == nil || len(configs) < 2 {
		return ""
	}
	key := d.key(op)
	if c, ok := d.choices.Get(key); ok && slices.Contains(configs, c) {
		return c
	}
	// What the emulated driver takes says nothing about a GPU.
	if d.info.Emulated {
		return ""
	}
	best, err := d.tune(op, bufs, configs)
	if err != nil {
		return "" // too little memory to try, say: the likeliest serves
	}
	d.choices.Set(key, best)
	return best
}

// key names op and its shape on this GPU.
func (d *Device) key(op kernels.Op) string {
	return fmt.Sprintf("%s sm_%d %s %+v", d.info.Name, d.target.SM, op.Name(), op)
}

// tune times each variant of op and returns the fastest.
func (d *Device) tune(op kernels.Op, bufs []device.Buffer, configs []string) (best string, err error) {
	own, free, err := d.spare(op, bufs)
	defer free()
	if err != nil {
		return "", err
	}
	var marks [2]cu.Event
	if err := d.ctx.Do(func() (err error) {
		for i := range marks {
			if marks[i], err = cu.MakeEvent(cu.DefaultEvent); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return "", err
	}
	defer func() {
		_ = d.ctx.Do(func() error { return errors.Join(cu.DestroyEvent(&marks[0]), cu.DestroyEvent(&marks[1])) })
	}()
	var least time.Duration
	for _, c := range configs {
		t, err := d.time(op, own, c, marks)
		if err != nil {
			return "", fmt.Errorf("variant %s: %w", c, err)
		}
		if best == "" || t < least {
			best, least = c, t
		}
	}
	return best, nil
}

// spare replaces the buffers that op writes by others of the same size.
func (d *Device) spare(op kernels.Op, bufs []device.Buffer) (own []device.Buffer, free func(), err error) {
	var blocks []*block
	free = func() {
		_ = d.drain()
		for _, b := range blocks {
			d.mem.free(b)
		}
	}
	own = slices.Clone(bufs)
	for i, a := range op.Args() {
		if a.Role == kernels.In {
			continue
		}
		b, err := d.mem.alloc(int64(a.Size()))
		if err != nil {
			return nil, free, err
		}
		blocks = append(blocks, b)
		own[i] = device.Buffer{Addr: b.addr, Size: a.Size()}
	}
	return own, free, nil
}

// Rounds of a variant that are timed; the least of them counts.
const tuneRounds = 4

// time returns the device time of one launch of op.
func (d *Device) time(op kernels.Op, bufs []device.Buffer, config string, marks [2]cu.Event) (time.Duration, error) {
	plan, err := kernels.CUDA(op, d.target, config)
	if err != nil {
		return 0, err
	}
	var scratch *block
	var base uint64
	if plan.Scratch > 0 {
		if scratch, err = d.mem.alloc(int64(plan.Scratch)); err != nil {
			return 0, err
		}
		base = scratch.addr
		defer d.mem.free(scratch)
	}
	cmds, err := driver.NewCommands(len(plan.Launches))
	if err != nil {
		return 0, err
	}
	defer cmds.Free()
	for i := range plan.Launches {
		k, err := d.resolve(&plan.Launches[i], bufs, base)
		if err == nil {
			err = cmds.Launch(&k)
		}
		if err != nil {
			return 0, err
		}
	}
	run := func(n int) (time.Duration, error) {
		if err := d.ctx.Record(marks[0], d.setup); err != nil {
			return 0, err
		}
		for range n {
			if _, err := d.ctx.Run(cmds, d.setup); err != nil {
				return 0, err
			}
		}
		if err := errors.Join(d.ctx.Record(marks[1], d.setup), d.ctx.Sync(marks[1])); err != nil {
			return 0, err
		}
		t, err := d.ctx.Elapsed(marks[0], marks[1])
		return t / time.Duration(n), err
	}
	if err := d.drain(); err != nil { // nothing else runs beside it
		return 0, err
	}
	least, err := run(1) // the first also loads the code
	if err != nil {
		return 0, err
	}
	n := 1
	if least < 200*time.Microsecond { // several, so that the launch itself does not count
		n = 8
	}
	for range tuneRounds {
		t, err := run(n)
		if err != nil {
			return 0, err
		}
		least = min(least, t)
	}
	return least, nil
}
