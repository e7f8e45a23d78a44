package emu

import (
	"sync/atomic"
	"testing"
	"time"

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
