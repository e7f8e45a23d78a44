package cpu

import (
	"sync/atomic"
	"time"

	"dev.gpustall/engine/device"
)

// timing holds the times of one timed launch of a program: before its first operation and after
// each.
type timing struct {
	marks []int64     // ns on the device's clock, written by the stream
	done  atomic.Bool // the stream has written them all
}

// LaunchTimed enqueues all of p's launches and has the stream note the time
// between them: two readings of the clock a launch. It allocates at the first
// timed launches of p only.
func (d *Device) LaunchTimed(s device.Stream, p device.Program) (device.Timing, error) {
	st, err := d.stream("launch timed", s)
	if err != nil {
		return 0, err
	}
	pr, err := d.program("launch timed", p)
	if err != nil {
		return 0, err
	}
	t, id := pr.timed.Next(p)
	if t != nil {
		if t.marks == nil {
			t.marks = make([]int64, pr.plan.Len()+1)
		}
		t.done.Store(false)
		pr.timed.Take(id)
	}
	pr.inFlight.Add(1)
	st.send(command{op: opLaunch, prog: pr, timing: t})
	return id, nil
}

// OpTimes appends the time of each launch of t to dst[:0].
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
	if !r.done.Load() {
		return dst, device.NotTimed()
	}
	for i := 1; i < len(r.marks); i++ {
		dst = append(dst, time.Duration(r.marks[i]-r.marks[i-1]))
	}
	pr.timed.Read(t)
	return dst, nil
}
