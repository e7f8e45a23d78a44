package advice

import (
	"fmt"

	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// host says who had the host's cores in the steps judged, and what that cost the
// device.
type host struct {
	predict.Cores
	time *deviceTime

	device  bool    // the device computes on the host's own cores, so work that moves to the device stays on them
	starved float64 // share of the time in which the device's threads could run and had no core
	spun    bool    // the threads that had a core spun meanwhile, so the loss is at least starved
}

func newHost(d *deviceTime, t *trace.Tally) host {
	s := d.session
	h := host{Cores: predict.CoresOf(s.Snapshot, s.from, s.to), time: d, device: s.Meta.DeviceKind == "cpu", starved: WithoutCore(s.Snapshot, t)}
	h.spun = s.Meta.Spins() && h.starved >= moderate
	return h
}

// contention says how much slower the device computes because its threads wait for cores.
func (h *host) contention() string {
	least := ""
	if h.spun {
		least = "at least "
	}
	return fmt.Sprintf("CPU contention: compute runs %s%.1fx slower", least, 1/(1-min(h.starved, 0.999)))
}

// slowed also says how long they wait.
func (h *host) slowed() string {
	return fmt.Sprintf("%s, as its threads wait for a core %s of its time", h.contention(), units.Prose.Percent(h.starved))
}

// turns continues the sentence about who uses the cores with what more workers would
// get of them.
func (h *host) turns() string {
	switch share := h.Share(); {
	case share != "":
		return "; " + share
	case h.Shared == "":
		return ", and more workers may get more turns"
	}
	return ", and more workers get more turns from those that share cores with them by the thread"
}

// lostToHost returns the share of the time lost because threads of the host had no core.
func (h *host) lostToHost() float64 {
	return h.time.share(trace.GroupHost) + h.time.Of(starved(&h.time.Breakdown, h.starved))
}
