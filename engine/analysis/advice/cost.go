package advice

import (
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Cost is what an hour of the device costs, and how much of that is spent idle.
type Cost struct {
	Rate, Idle, Data float64 // dollars an hour: in all, while the device computes nothing, and while it waits for data
}

// CostOf returns the cost of the time of some steps; false where no rate was given, or there are no
// steps.
func CostOf(s *trace.Snapshot, b *attribution.Breakdown) (c Cost, ok bool) {
	rate := s.Meta.GPURate
	if rate <= 0 || b.Active() <= 0 {
		return c, false
	}
	return Cost{rate, rate * (1 - b.Utilisation()), rate * b.DataShare()}, true
}

// String returns what idleness costs: "$0.90 of each hour is spent waiting for data".
func (c Cost) String() string {
	text := units.Dollars(c.Data) + " of each hour is spent waiting for data"
	if c.Idle-c.Data >= 0.01 {
		text += ", " + units.Dollars(c.Idle) + " on an idle device in all"
	}
	return text
}
