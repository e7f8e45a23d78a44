package train

import (
	"runtime"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/trace"
)

// starved measures how long the step loop was ready to run and had no core while it
// enqueued a step. It belongs to the step loop.
type starved struct {
	meter *host.Meter // of the step loop; nil where the system does not count this

	before int64 // how long the thread had waited when the step was begun, in ns
	locked bool  // a step is being measured
	at     int64 // when the last measurement was begun, ns
	budget host.Budget
	cost   host.Cost // of measuring a step
}

func (s *starved) open() {
	s.meter, _ = host.NewMeter()
	s.budget.Share = 0.005
}

// begin starts to measure the enqueuing of a step, if the budget has time for it. It
// locks the step loop to its thread until end.
func (s *starved) begin(c trace.Clock, now int64) {
	if s.meter == nil {
		return
	}
	s.budget.Earn(now-s.at, s.cost.Of(1))
	s.at = now
	if !s.budget.Covers(s.cost.Of(1)) {
		return
	}
	runtime.LockOSThread()
	s.before, s.locked = 0, true
	if waited, ok := s.meter.Waited(); ok {
		s.before = waited
	}
	s.cost.See(2 * (c.Now() - now)) // end costs as much as begin
	s.budget.Spend(s.cost.Of(1))
}

// end returns how long the step loop waited for a core since begin, in ns.
func (s *starved) end() (ns int64) {
	if !s.locked {
		return 0
	}
	if waited, ok := s.meter.Waited(); ok && s.before > 0 {
		ns = waited - s.before
	}
	runtime.UnlockOSThread()
	s.locked = false
	return ns
}
