package emu

import (
	"sync/atomic"
	"testing"
	"time"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/devicetest"
)

func TestDevice(t *testing.T) {
	for _, p := range Presets() {
		t.Run(p.Name, func(t *testing.T) { devicetest.Run(t, New(p, new(virtualClock))) })
	}
}

// virtualClock stands still until someone sleeps or advances it, so that a run
// on it is repeatable to the ns and takes no time.
type virtualClock struct {
	now  atomic.Int64
	late time.Duration // by which each sleep is too long
}

// Now returns the virtual ns.
func (c *virtualClock) Now() int64 { return c.now.Load() }

// Sleep moves the clock to until, unless it is past that.
func (c *virtualClock) Sleep(until int64) {
	for {
		now := c.now.Load()
		if now >= until || c.now.CompareAndSwap(now, until+int64(c.late)) {
			return
		}
	}
}

// Advance moves the clock on by d: host work that takes that long.
func (c *virtualClock) Advance(d time.Duration) { c.now.Add(int64(d)) }

// A copy from pageable memory holds its caller; that the caller goes on late is no part
// of the copy, and said of its end alone.
func TestLate(t *testing.T) {
	clock := &virtualClock{late: 3 * time.Millisecond}
	d := New(Presets()[0], clock)
	defer d.Close()
	s, _ := d.NewStream("copy")
	b, err := d.Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	locked, err := d.AllocHost(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		src  []byte
		want time.Duration
	}{{"pageable", make([]byte, 1<<20), clock.late}, {"page-locked", locked, 0}} {
		end, after := newEvent(t, d), newEvent(t, d)
		for _, err := range []error{d.CopyIn(s, b, c.src), d.Record(s, end), d.Record(s, after)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := d.Late(end); got != c.want || d.Late(after) != 0 {
			t.Errorf("%s: late by %v, and by %v afterwards; want %v", c.name, got, d.Late(after), c.want)
		}
	}
}

func newEvent(t *testing.T, d *Device) device.Event {
	t.Helper()
	e, err := d.NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	return e
}
