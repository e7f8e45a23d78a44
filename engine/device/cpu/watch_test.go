package cpu

import (
	"testing"
	"time"

	"dev.gpustall/engine/base/host"
)

// A stream's thread that goes on with what was there long ago had no core; one that wakes
// as quickly as threads do had one.
func TestLate(t *testing.T) {
	d, err := Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s := &stream{dev: d}
	s.wokeFor(d.now())
	if s.late != 0 {
		t.Errorf("late by %d ns at once", s.late)
	}
	s.wokeFor(d.now() - int64(3*time.Millisecond))
	if s.late < int64(3*time.Millisecond) {
		t.Errorf("late by %d ns after 3 ms", s.late)
	}
}

// A worker that wakes late, or not at all, waited for a core.
func TestWatchCountsTheLate(t *testing.T) {
	d, err := Open(2)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, _, ok := d.Starved(); !ok {
		t.Skip("what threads wait for is not counted here")
	}
	w := &d.watch
	w.posted = d.now()
	w.Missed(1)
	if n := w.waiting.Load(); n > int64(10*host.WakeLatency) {
		t.Logf("a machine too busy to tell: %d ns", n)
	}
	before := w.waiting.Load()
	w.posted = d.now() - int64(time.Second)
	w.Missed(1)
	w.Begin(1)
	w.End(1)
	core, waiting, _ := d.Starved()
	if got := waiting - time.Duration(before); got < 2*time.Second || got > 3*time.Second || core <= 0 {
		t.Errorf("waited %v, on a core %v", got, core)
	}
}
