//go:build cuda && cgo && linux

package cuda

import (
	"errors"
	"fmt"
	"time"

	"gorgonia.org/cu"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cuda/driver"
)

// timedRun is a command buffer of a program's launches with events between them: one before the
// first operation and one after each.
type timedRun struct {
	ctx    driver.Context
	cmds   *driver.Commands
	events []cu.Event
}

// prepare makes the commands and events of a timed run of p, unless they were made before.
func (r *timedRun) prepare(ctx driver.Context, p *program) error {
	if r.cmds != nil {
		return nil
	}
	*r = timedRun{ctx: ctx, events: make([]cu.Event, 0, len(p.ops)+1)}
	err := r.build(p)
	if err != nil {
		r.free()
	}
	return err
}

func (r *timedRun) build(p *program) (err error) {
	if r.cmds, err = driver.NewCommands(len(p.list) + len(p.ops) + 1); err != nil {
		return err
	}
	if err := r.mark(); err != nil {
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
		if err := r.mark(); err != nil {
			return err
		}
	}
	return nil
}

// mark appends a Record of a new event.
func (r *timedRun) mark() error {
	err := r.ctx.Do(func() error {
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

func (r *timedRun) free() {
	if len(r.events) == 0 && r.cmds == nil {
		return
	}
	_ = r.ctx.Do(func() error {
		var errs []error
		for i := range r.events {
			errs = append(errs, cu.DestroyEvent(&r.events[i]))
		}
		return errors.Join(errs...)
	}) // the context destroys the rest when it is released
	if r.cmds != nil {
		r.cmds.Free()
	}
	*r = timedRun{}
}

// LaunchTimed enqueues all of p with an event between each two operations. The first launches make
// the events. A timed launch takes longer than another: events keep operations from overlapping at
// their ends, and it never replays a graph.
func (d *Device) LaunchTimed(s device.Stream, p device.Program) (device.Timing, error) {
	st, pr, err := d.turnTo(s, p)
	if err != nil {
		return 0, err
	}
	r, t := pr.timed.Next(p)
	if r == nil {
		return 0, d.launch(st, pr)
	}
	if err := r.prepare(d.ctx, pr); err != nil {
		return 0, refused(err)
	}
	if i, err := d.ctx.Run(r.cmds, st); err != nil {
		return 0, errs.Wrap(refused(err), "launch", fmt.Sprintf("command %d of %d, timed", i, r.cmds.Len()), "")
	}
	pr.timed.Take(t)
	return t, nil
}

// OpTimes appends the device time of each launch of t to dst[:0].
func (d *Device) OpTimes(t device.Timing, dst []time.Duration) ([]time.Duration, error) {
	dst = dst[:0]
	pr, err := d.program("op times", t.Program())
	if err != nil {
		return dst, err
	}
	r, err := pr.timed.At(t)
	if err != nil {
		return dst, err
	}
	done, err := d.ctx.Query(r.events[len(r.events)-1])
	if err == nil && !done {
		return dst, device.NotTimed()
	}
	for i := 1; i < len(r.events) && err == nil; i++ {
		var e time.Duration
		e, err = d.ctx.Elapsed(r.events[i-1], r.events[i])
		dst = append(dst, e)
	}
	if err != nil {
		return dst[:0], refused(err)
	}
	pr.timed.Read(t)
	return dst, nil
}

// Variants appends the name of the kernel chosen for each launch of p to dst[:0].
func (d *Device) Variants(p device.Program, dst []string) []string {
	dst = dst[:0]
	if pr, err := d.program("variants", p); err == nil {
		dst = append(dst, pr.variants...)
	}
	return dst
}
