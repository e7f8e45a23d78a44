//go:build cuda && cgo && linux

package cuda

import (
	"errors"
	"fmt"

	"gorgonia.org/cu"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cuda/driver"
)

// timedRuns is how many timed launches of a program may be in flight. One that
// finds none free runs untimed.
const timedRuns = 4

// timer times the operations of a program with an event between each two.
type timer struct {
	on    bool
	ctx   driver.Context
	runs  [timedRuns]timedRun
	plain *driver.Commands
	times []device.OpTime
}

// timedRun is a command buffer with its events: one before the first operation
// and one behind each.
type timedRun struct {
	cmds    *driver.Commands
	events  []cu.Event
	pending bool
}

func (d *Device) newTimer(p *program) (*timer, error) {
	t := &timer{ctx: d.ctx, plain: p.cmds, times: make([]device.OpTime, len(p.ops))}
	for i := range t.runs {
		if err := t.runs[i].build(d.ctx, p); err != nil {
			t.free()
			return nil, err
		}
	}
	return t, nil
}

func (r *timedRun) build(ctx driver.Context, p *program) error {
	var err error
	if r.cmds, err = driver.NewCommands(len(p.list) + len(p.ops) + 1); err != nil {
		return err
	}
	r.events = make([]cu.Event, 0, len(p.ops)+1)
	mark := func() error {
		err := ctx.Do(func() error {
			e, err := cu.MakeEvent(cu.DefaultEvent)
			if err == nil {
				r.events = append(r.events, e)
			}
			return err
		})
		if err != nil {
			return err
		}
		return r.cmds.Record(r.events[len(r.events)-1])
	}
	if err := mark(); err != nil {
		return err
	}
	next := 0
	for _, n := range p.ops {
		for range n {
			if err := r.cmds.Launch(&p.list[next]); err != nil {
				return err
			}
			next++
		}
		if err := mark(); err != nil {
			return err
		}
	}
	return nil
}

// launch runs the program with events, or without when all are in flight.
func (t *timer) launch(d *Device, s cu.Stream) error {
	cmds := t.plain
	t.resolve()
	for i := range t.runs {
		if r := &t.runs[i]; !r.pending {
			r.pending = true
			cmds = r.cmds
			break
		}
	}
	if i, err := d.ctx.Run(cmds, s); err != nil {
		return fmt.Errorf("cuda device: launch command %d of %d, timed: %w", i, cmds.Len(), err)
	}
	return nil
}

// resolve adds up the runs that have completed.
func (t *timer) resolve() {
	for i := range t.runs {
		r := &t.runs[i]
		if !r.pending {
			continue
		}
		if done, err := t.ctx.Query(r.events[len(r.events)-1]); err != nil || !done {
			continue
		}
		r.pending = false
		for j := range t.times {
			if e, err := t.ctx.Elapsed(r.events[j], r.events[j+1]); err == nil {
				t.times[j].Total += e
				t.times[j].Calls++
			}
		}
	}
}

func (t *timer) free() {
	_ = t.ctx.Do(func() error {
		var errs []error
		for i := range t.runs {
			for j := range t.runs[i].events {
				errs = append(errs, cu.DestroyEvent(&t.runs[i].events[j]))
			}
		}
		return errors.Join(errs...)
	}) // what cannot be destroyed goes with the context
	for i := range t.runs {
		if t.runs[i].cmds != nil {
			t.runs[i].cmds.Free()
		}
	}
}

// TimeOps turns the timing of p's launches on, from zero, or off. A timed launch
// is not replayed as a graph, and an event between two kernels keeps them from
// overlapping, so it is a little slower.
func (d *Device) TimeOps(p device.Program, on bool) error {
	pr, err := d.program("time ops", p)
	if err != nil {
		return err
	}
	if !on {
		if pr.timer != nil {
			pr.timer.on = false
		}
		return nil
	}
	if pr.timer == nil {
		if pr.timer, err = d.newTimer(pr); err != nil {
			return fmt.Errorf("cuda device: time ops: %w", err)
		}
	}
	if !pr.timer.on {
		pr.timer.resolve()
		clear(pr.timer.times)
	}
	pr.timer.on = true
	return nil
}

// OpTimes appends the time and count of each launch of p to dst[:0].
func (d *Device) OpTimes(p device.Program, dst []device.OpTime) []device.OpTime {
	dst = dst[:0]
	pr, err := d.program("op times", p)
	if err != nil || pr.timer == nil {
		return dst
	}
	pr.timer.resolve()
	return append(dst, pr.timer.times...)
}
