package train

import (
	"time"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
)

// anchor ties the device's clock to the host's by one event whose host time is known. It
// moves to the end of each resolved step, for two reasons. CUDA's elapsed time is a
// float32 of milliseconds (cuEventElapsedTime), which loses resolution as it grows. And
// the two clocks drift apart.
type anchor struct {
	base  device.Event // recorded once, at the start
	event device.Event
	t     int64 // ns
}

// start records the first event and waits for it.
func (a *anchor) start(dev device.Device, s device.Stream, c trace.Clock) (err error) {
	if a.base, err = dev.NewEvent(); err != nil {
		return err
	}
	if err = dev.Record(s, a.base); err != nil {
		return err
	}
	before := c.Now()
	if err = dev.Sync(a.base); err != nil {
		return err
	}
	a.event, a.t = a.base, before+(c.Now()-before)/2
	return nil
}

// at returns the host time of a completed event.
func (a *anchor) at(dev device.Device, e device.Event) (int64, error) {
	d, err := dev.Elapsed(a.event, e)
	return a.t + int64(d/time.Nanosecond), err
}

func (a *anchor) close(dev device.Device) {
	if a.base != 0 {
		dev.FreeEvent(a.base)
	}
}

// clampToHost moves the times of a step's events, in ns and in their order, to where the host can
// have seen them. That is after the host began to enqueue the step, and before a query found the
// step complete. If the device's clock has more time between the first and the last event than
// there was, the beginning is cut.
func clampToHost(at *[4]int64, enqueued, seen int64) {
	shift := min(max(0, enqueued-at[0]), seen-at[3])
	for i := range at {
		at[i] = max(at[i]+shift, enqueued)
	}
}
