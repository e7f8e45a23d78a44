package predict

import (
	"fmt"
	"math"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Capacity is what host and device could do at best, in ns for a batch. It is estimated from what
// they did.
type Capacity struct {
	CPU    float64 // core time that all of this process takes for a batch
	Device float64 // time that the device computes, if its threads never waited for a core
	Copy   float64 // time that the batch's copy to the device takes
	Cores  Cores
	Batch  float64 // samples in a batch
	Shared bool    // the device computes on the same cores
	Waited float64 // the share of its time in which the device had no core, which Device leaves out
	Spun   bool    // threads spun while others had no core, so that CPU and Device are upper limits
	Beside bool    // the device waits for data mostly while no batch is short of a core: workers start, indices are drawn, order is kept

	Segment string // "segment #4", whose steps it rests on, where there are others: with other settings and other neighbours
}

// CapacityOf estimates the capacity; it returns false where there is nothing to estimate it from.
// starved is the share of the time in which the device's threads could run and had no core. m
// describes the device. segment is what these steps are called (attribution.Among).
func CapacityOf(b *attribution.Breakdown, l *Loading, cores Cores, workers int, starved float64, m *trace.Meta, segment string) (c Capacity, ok bool) {
	if cores.All == 0 || b.Load <= 0 || b.Busy <= 0 || b.Steps == 0 || b.Samples == 0 {
		return c, false
	}
	steps := float64(b.Steps)
	c = Capacity{
		Device: float64(b.Busy) / steps * (1 - starved), Copy: float64(b.Copy) / steps,
		Cores: cores, Batch: float64(b.Samples) / steps, Shared: m.DeviceKind == "cpu", Waited: starved, Spun: m.Spins() && starved >= little, Segment: segment,
	}
	c.Beside = 2*(b.Stall[trace.CauseStartup]+b.Stall[trace.CauseSampler]+b.Stall[trace.CauseOrder]) > b.Data()
	switch w := &l.Batch; {
	case cores.Known:
		c.CPU = max(cores.Ours*float64(b.Active())/steps, w.Core)
	default:
		if c.CPU = w.Core + w.Waiting; workers > cores.Whole() { // they took turns
			c.CPU *= cores.All / float64(workers)
		}
		if c.Shared {
			c.CPU += c.Device * cores.All
		}
	}
	return c, true
}

// Host returns how long a batch takes when all of these cores compute.
func (c *Capacity) Host(cores float64) float64 { return c.CPU / max(cores, 0.01) }

// Fastest returns the shortest time for a batch with these cores.
func (c *Capacity) Fastest(cores float64) float64 { return max(c.Device, c.Host(cores)) }

// rate says in words how many samples a second there are if a batch takes so long.
func (c *Capacity) rate(batch float64) string { return units.Rate(1e9*c.Batch/batch) + " samples/s" }

// about is rate for an estimate that two digits are enough for.
func (c *Capacity) about(batch float64) string {
	v := 1e9 * c.Batch / batch
	last := math.Pow(10, math.Floor(math.Log10(v))-1)
	return units.Rate(math.Round(v/last)*last) + " samples/s"
}

// needed returns how many cores the work for a batch needs in the time that the device
// takes for it.
func (c *Capacity) needed() float64 { return c.CPU / c.Device }

// available returns how many cores the training could have used. Where all are in use and our
// threads hardly waited for one, our threads had what they wanted, and other processes took
// nothing from them.
func (c *Capacity) available() float64 {
	if h := &c.Cores; h.Busy() && !h.Throttled && h.Waiting < little {
		return h.All
	}
	return c.Cores.Left()
}

// gets returns how many cores the training could have used beside others: those, or its share.
func (c *Capacity) gets() float64 { return max(c.available(), c.Cores.Portion()) }

// Missing returns about how many more cores the device could use. An estimate slightly above a
// whole number is not rounded up.
func (c *Capacity) Missing() int { return int(math.Ceil(c.needed() - c.available() - 0.25)) }

// hidden is the share of its time without a core above which a cpu device does not show what it would do with one.
const hidden = 0.5

// hides says what the training's threads do that hides what they would take of free cores; empty where that shows.
func (c *Capacity) hides() string {
	switch {
	case c.Spun:
		return "spin on their cores while they wait for one that has none"
	case c.Shared && c.Waited > hidden:
		return "wait for a core most of the time"
	}
	return ""
}

// Short reports whether the device could use more cores, or it does not show how many.
func (c *Capacity) Short() bool { return c.hides() != "" || c.Missing() > 0 }

// balance says what the host can feed and what the device takes, and which steps tell it. Where others use much of the
// cores, it says how many feeding the device needs: a rate from what was left would be little but the measured one.
func (c *Capacity) balance() string {
	in := ""
	if c.Segment != "" {
		in = "in " + c.Segment + " "
	}
	if does := c.hides(); does != "" {
		return fmt.Sprintf("%sthe training's threads %s, and so do not show what they would take with the cores to themselves", in, does)
	}
	if c.CPU <= 0 {
		return fmt.Sprintf("%sthe device takes %s", in, c.rate(c.Device))
	}
	takes, work := "the device takes "+c.rate(c.Device), "loading"
	if c.Shared {
		work = "computing and loading"
	}
	if c.Shared && c.Waited >= little { // an estimate: the more Device leaves out, the less sure it is
		takes = "the device would take ~" + c.about(c.Device) + " if its threads never waited for a core"
	}
	switch cores := c.Cores.Has(); {
	case c.Cores.Crowded() && c.needed() > c.Cores.All:
		return fmt.Sprintf("%s%s; at that rate %s would take ~%.2g cores, and the %s", in, takes, work, c.needed(), c.Cores.limit())
	case c.Cores.Crowded():
		return fmt.Sprintf("%s%s; at that rate %s would take ~%.2g of the %s", in, takes, work, c.needed(), cores)
	default:
		feeds := fmt.Sprintf("%sthis host can feed at most ~%s with its %s", in, c.rate(c.Host(c.Cores.All)), cores)
		if left := c.Host(c.available()); c.Host(c.Cores.All) <= c.Device && left > c.Device {
			feeds += fmt.Sprintf(", and other processes left it cores for ~%s", c.rate(left))
		}
		return feeds + "; " + takes
	}
}

// String says what the host can feed, what the device takes, and how many cores that would need.
func (c *Capacity) String() string {
	if lacks := c.lacks(); lacks != "" && c.CPU > 0 && c.Missing() > 0 && c.hides() == "" {
		return c.balance() + ": " + lacks
	}
	return c.balance()
}

// lacks says how many cores are needed and how many there are; it is empty where balance does.
func (c *Capacity) lacks() string {
	if c.Cores.Crowded() {
		return ""
	}
	if needed := c.needed(); needed <= c.Cores.All {
		return fmt.Sprintf("~%.2g cores needed, other processes leave ~%s", needed, units.Cores(c.available()))
	}
	return fmt.Sprintf("~%.2g cores needed, %s", c.needed(), c.Cores.limit())
}

// WorkersFor returns how many workers load a batch every so many ns. This is the worker time of
// a batch over that time, and a fifth more, because batches are not alike. It is no more than
// the cores can serve. It may be more than num_workers allows.
func WorkersFor(batch float64, w Work, cores float64) int {
	n := math.Ceil(1.2 * w.Alone() / batch)
	if w.Core > 0 && cores > 0 {
		n = min(n, math.Ceil(cores*w.Alone()/w.Core-0.25))
	}
	return int(max(1, min(n, math.MaxInt32)))
}
