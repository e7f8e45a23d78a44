package predict

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Cores are the host's cores and who used them in some steps, as far as that was measured.
type Cores struct {
	All          float64 // cores that this process may use, by affinity and quota; 0 where not known
	Quota        bool    // All is what the cgroup's quota allows
	Ours, Others float64 // used of All, on average
	Waiting      float64 // share of the time in which our threads could run and had no core
	Throttled    bool    // the cgroup's quota ran out, or nearly did
	Known        bool    // it is known who used them
	Shared       string  // how the kernel shares them out (host.SharedOut); empty where that is not known
	Rivals       float64 // the part of Others in our group, which shares cores with us thread by thread
}

// settled is how long, in ns, after a change of knobs a gauge of the host still includes the time
// before. A gauge looks back to its previous sample, half a second ago.
const settled = 500e6

// throttledFrom is the share of its periods in which a quota must run out to matter.
const throttledFrom = 0.05

// spent is the part of a quota from which on it counts as used up. A training that runs in bursts runs out of it in few
// periods.
const spent = 0.94

// CoresOf finds the cores from the host's facts and its gauges over [from, to].
func CoresOf(s *trace.Snapshot, from, to int64) (c Cores) {
	cpus, quota := 0.0, 0.0 // cores that the gauges are shares of, and how many of them a quota allows
	for _, h := range s.Meta.Host {
		switch h.Name {
		case "threads":
			c.All, _ = strconv.ParseFloat(h.Value, 64)
		case "cores":
			if c.All == 0 {
				c.All, _ = strconv.ParseFloat(h.Value, 64)
			}
		case "affinity": // "4 cpus: 0-3"
			n, _, _ := strings.Cut(h.Value, " ")
			cpus, _ = strconv.ParseFloat(n, 64)
		case trace.CPUQuota:
			_, _ = fmt.Sscanf(h.Value, trace.Quota, &quota)
		}
	}
	if cpus == 0 {
		cpus = c.All
	}
	if c.Quota = quota > 0 && quota <= cpus; c.Quota {
		c.All = quota
	}
	if to-from > 3*settled {
		from += settled
	}
	gauge := func(name string) (float64, bool) {
		mean, _, n := s.GaugeOver(name, from, to)
		return mean / 100, n > 0
	}
	ours, known := gauge(trace.GaugeCPUOurs)
	others, both := gauge(trace.GaugeCPUOthers)
	c.Known = known && both && cpus > 0
	if !c.Known {
		return c
	}
	c.Ours, c.Others = ours*cpus, others*cpus
	c.Waiting, _ = gauge(trace.GaugeRunQueue)
	if rivals, known := gauge(trace.GaugeCPUGroup); known {
		c.Shared, c.Rivals = knob.ValueOf(s.Meta.Host, trace.CoresShared), rivals*cpus
	}
	if c.Quota && c.Others > 0 { // others may have the rest of the host's cores
		taken := max(0, c.Others-(cpus-c.All))
		c.Rivals *= taken / c.Others
		c.Others = taken
	}
	throttled, _ := gauge(trace.GaugeThrottled) // other processes of the cgroup may use up a quota of more cores, too
	c.Throttled = throttled >= throttledFrom || c.Quota && c.Ours >= spent*c.All
	return c
}

// Whole returns how many threads can run at once.
func (c *Cores) Whole() int { return int(math.Ceil(c.All)) }

// Has returns how many cores there are: "2 cores", or "0.6 cores of CPU quota".
func (c *Cores) Has() string {
	if c.Quota {
		return fmt.Sprintf("%.3g cores of CPU quota", c.All)
	}
	return units.Counted(c.Whole(), "core", "cores")
}

// limit says the same in a clause.
func (c *Cores) limit() string {
	if c.Quota {
		return fmt.Sprintf("CPU quota allows %.3g", c.All)
	}
	return fmt.Sprintf("host has %d", c.Whole())
}

// Left returns what other processes leave of the cores.
func (c *Cores) Left() float64 { return max(c.All-c.Others, 0) }

// Busy reports whether no core is free for another thread of ours. It allows for what the gauges
// cannot resolve, and for a gain that is too small to matter.
func (c *Cores) Busy() bool {
	return c.Known && (c.Throttled || c.Left()-c.Ours < min(0.06*c.All, 2))
}

// Crowded reports whether other processes use enough of the cores to matter: a tenth, and at least
// half a core.
func (c *Cores) Crowded() bool { return c.Known && c.Others >= max(0.5, c.All/10) }

// Grouped reports whether more threads of ours would get no more of the cores that others use. That
// is so where the kernel shares cores out between groups, and others have hardly any of what our group gets.
func (c *Cores) Grouped() bool {
	return c.byGroup() && c.Rivals < max(c.All/40, c.Ours/4)
}

// byGroup reports whether others matter, and the kernel shares cores out between groups.
func (c *Cores) byGroup() bool {
	return c.Crowded() && (c.Shared == host.BySession || c.Shared == host.ByCgroup)
}

// Outside returns how many cores other groups use. No thread of ours gets more of those.
func (c *Cores) Outside() float64 {
	if !c.byGroup() {
		return 0
	}
	return max(0, c.Others-c.Rivals)
}

// Portion returns how many cores are ours whenever we want them: those that we used and those that
// were idle. Where that is less than one core, it is the part of a core that a thread got.
func (c *Cores) Portion() float64 { return max(c.Left(), 1-min(c.Waiting, 0.95)) }

// Runnable returns how many threads of ours had a core or were ready for one, on average.
func (c *Cores) Runnable() float64 { return c.Ours / (1 - min(c.Waiting, 0.95)) }

// Grown returns how many times as many cores our group gets when so many threads of ours can run. The kernel divides
// a group's weight among the cores that it has threads on, and each core by the weights there. So a group with fewer
// threads than cores gets more with another thread.
func (c *Cores) Grown(threads float64) float64 {
	if !c.Grouped() || !c.Busy() || c.Throttled {
		return 1
	}
	on := func(threads float64) float64 { return 1 / min(max(threads, 1), c.All) } // the part of the weight on each core
	now := on(c.Runnable())
	others := max(0, 1/c.Portion()-now) // the others' weight on a core
	return (now + others) / (on(threads) + others)
}

// allow returns how many times as many batches our group can make at the most when its part is so many cores. A batch costs
// at least what our processes use for one now, also beside loading and computing. It is at least 1, and infinite unless a
// thread of ours always wants a core, so that all of the part is used.
func (c *Cores) allow(cores float64) float64 {
	if !c.Grouped() || !c.Busy() || c.Runnable() < 1 {
		return math.Inf(1)
	}
	return max(1, cores/c.Ours)
}

// Share returns a sentence about our group's part of the cores. It is empty where threads share the cores one by one.
func (c *Cores) Share() string {
	if !c.Grouped() {
		return ""
	}
	now, more := units.Cores(c.Portion()), "whatever num_workers is"
	if most := units.Cores(c.Grown(c.All) * c.Portion()); most != now {
		more = fmt.Sprintf("and ~%s at the most with more workers", most)
	}
	return fmt.Sprintf("the kernel shares the cores out %s, and this training's share is ~%s of %s %s", c.Shared, now, c.Has(), more)
}

// String says who uses the cores.
func (c *Cores) String() string {
	return fmt.Sprintf("other processes use ~%s of the %s", units.Cores(c.Others), c.Has())
}
